"""Every test session has a home of its own and no network; real models are found, never skipped."""

from __future__ import annotations

import ipaddress
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Read once when llama.cpp is loaded: its threads must not spin beside the other tests' engines.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("GGML_NO_BACKTRACE", "1")

REPOSITORY = Path(__file__).parent.parent
MODELS = REPOSITORY / "models"

# A busy machine is no failure, and a failure should be repeatable from the log alone.
settings.register_profile("edgekv", deadline=None, print_blob=True)
# The same examples each time: a change is judged by what it did, new ones are found at desks.
settings.register_profile("ci", settings.get_profile("edgekv"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "edgekv")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that load a real model run one after the other: each wants all cores and memory."""
    for item in items:
        if {"starter_model", "gemma_model"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.llama)
        if item.get_closest_marker("llama"):
            item.add_marker(pytest.mark.xdist_group("llama"))


def pytest_configure() -> None:
    """Ctrl+C reaches the programs that tests start, also where a shell started the tests beside
    itself: then it is ignored, and so it is by all their children.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class NetworkRefused(Exception):
    """A test tried to reach another machine. Not an OSError, so that no code takes it for one."""


def _refuse_network(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook: every connection of this process is announced here before it is made."""
    if event in {"socket.connect", "socket.sendto", "socket.sendmsg"}:
        address = arguments[1]
        # Unix sockets have a path here; sendmsg on a connected socket has None.
        host = address[0] if isinstance(address, tuple) else None
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    if host is not None and not _is_this_machine(host):
        raise NetworkRefused(f"a test may not reach {host!r}; only this machine's own addresses")


def _is_this_machine(host: object) -> bool:
    name = host.decode() if isinstance(host, bytes) else str(host)
    if name in {"", "localhost"}:
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


sys.addaudithook(_refuse_network)


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Settings, caches and data of this session, for child processes too."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("EDGEKV_")]:
            patch.delenv(name)
        patch.setenv("HOME", str(home))
        patch.setenv("USERPROFILE", str(home))
        for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
            patch.setenv(f"XDG_{kind}_HOME", str(home / kind.lower()))
        # Else servers of tests and of whoever runs them would find each other.
        patch.delenv("XDG_RUNTIME_DIR", raising=False)
        yield home


@pytest.fixture(scope="session")
def starter_model() -> Path:
    """SmolLM2-135M-Instruct: full attention, chats."""
    return _present(MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture(scope="session")
def gemma_model() -> Path:
    """gemma-3-270m: window layers, a large vocabulary."""
    return _present(MODELS / "gemma-3-270m-Q4_K_M.gguf")


def _present(path: Path) -> Path:
    if not path.is_file():
        pytest.fail(f"{path} is absent; run 'python models/fetch.py starter gemma'", pytrace=False)
    return path
