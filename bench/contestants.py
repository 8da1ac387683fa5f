"""The servers that are measured beside each other, each on the same model, cells and threads."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from bench.serving import Server, edgekv, free_port, started


@dataclass(frozen=True, slots=True)
class Room:
    """What a load may use, the same for everybody."""

    model: str
    slots: int
    """Answers at once."""
    cells: int
    """Tokens in memory, of all conversations together."""
    context_length: int
    """Tokens that one conversation may hold, where a server can be told."""
    threads: int


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    how: str
    """How it is started: the words of the command that matter."""
    start: Callable[[Room], AbstractContextManager[Server]]


@dataclass(frozen=True, slots=True)
class Peers:
    """Where other servers are on this machine; None for those that are not."""

    llama_server: Path | None = None
    example_server: Path | None = None
    """`examples/server/server.py` of llama-cpp-python's source."""
    example_python: str = "python3"
    """An interpreter with what that script imports."""
    urls: tuple[str, ...] = ()
    """`NAME=http://…/v1` of servers that already run, with whatever they were given."""


def contestants(peers: Peers) -> list[Contestant]:
    """EdgeKV, and every peer that is here, each in the ways it is usually run."""
    found = [Contestant("EdgeKV", "--slots S --cells C --ctx N", _edgekv)]
    if (program := peers.llama_server) is not None:
        found += [
            Contestant("llama-server", "-c C", lambda room: _llama_server(program, room)),
            Contestant(
                "llama-server, tuned",
                "-c C -np S --kv-unified",
                lambda room: _llama_server(program, room, "-np", str(room.slots), "--kv-unified"),
            ),
        ]
    if (script := peers.example_server) is not None:
        found.append(
            Contestant(
                "llama-cpp-python's example",
                "n_ctx C, n_seq_max S, kv_unified",
                lambda room: _example_server(peers.example_python, script, room),
            )
        )
    for text in peers.urls:
        name, _, url = text.partition("=")
        found.append(Contestant(name, url, lambda _, url=url: _at(url)))  # type: ignore[misc]
    return found


def _edgekv(room: Room) -> AbstractContextManager[Server]:
    return edgekv(
        room.model,
        *("--slots", str(room.slots), "--cells", str(room.cells)),
        *("--ctx", str(room.context_length), "--threads", str(room.threads)),
    )


@contextlib.contextmanager
def _llama_server(program: Path, room: Room, *options: str) -> Iterator[Server]:
    port = free_port()
    command = [str(program), "-m", room.model, "-c", str(room.cells), "-t", str(room.threads)]
    command += ["-tb", str(room.threads), "--port", str(port), "--no-webui", *options]
    libraries = f"{program.parent}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    with tempfile.TemporaryDirectory(prefix="llama-server-") as folder:
        log = Path(folder) / "log"
        with started(command, port, log, {"LD_LIBRARY_PATH": libraries}) as server:
            yield server


@contextlib.contextmanager
def _example_server(python: str, script: Path, room: Room) -> Iterator[Server]:
    port = free_port()
    settings = {
        "server": {"host": "127.0.0.1", "port": port},
        "model": {
            "alias": "local",
            "path": str(Path(room.model).resolve()),
            "n_ctx": room.cells,
            "n_seq_max": room.slots,
            "n_batch": 512,
            "n_ubatch": 512,
            "threads": room.threads,
            "threads_batch": room.threads,
            "kv_unified": True,
            "flash_attn": True,
        },
    }
    with tempfile.TemporaryDirectory(prefix="example-server-") as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(settings), encoding="utf-8")
        command = [python, str(script), "-C", str(config)]
        with started(command, port, Path(folder) / "log") as server:
            yield server


@contextlib.contextmanager
def _at(url: str) -> Iterator[Server]:
    urlopen(url + "/models").close()
    yield Server(url)
