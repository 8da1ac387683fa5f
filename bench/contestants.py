"""The servers that are measured beside each other, each on the same model, cells and threads."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.request import urlopen

from bench.geometry import num_layers
from bench.serving import Server, edgekv, free_port, started
from edgekv.budget.kv_types import KV_TYPES
from tests.lenders import lender

ENOUGH_BESIDE_WEIGHTS = 1024**3
"""Bytes that a worker lends for keys, values and buffers."""


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


def keepers(peers: Peers) -> list[Contestant]:
    """EdgeKV and llama-server with the bytes of `Room.cells` cells of f16, and nothing beside."""
    kinds: list[tuple[str, str, Callable[[Room, str], AbstractContextManager[Server]]]] = [
        ("EdgeKV", "--kv-type {} --slots S --cells C --host-cache 0 --disk-cache 0", _edgekv_keeps)
    ]
    if (program := peers.llama_server) is not None:
        how = "-ctk {0} -ctv {0} -np S -c C --kv-unified --cache-ram 0"
        kinds.append(("llama-server", how, partial(_llama_server_keeps, program)))
    return [
        Contestant(f"{name}, {kv_type}", how.format(kv_type), partial(of_type, start, kv_type))
        for name, how, start in kinds
        for kv_type in ("f16", "q8_0")
    ]


def of_type(
    start: Callable[[Room, str], AbstractContextManager[Server]], kv_type: str, room: Room
) -> AbstractContextManager[Server]:
    """With as many cells as the bytes of those of f16 are enough for, and as many more slots."""
    f16, other = (KV_TYPES[name].row_bytes(32) for name in ("f16", kv_type))
    more = replace(room, cells=room.cells * f16 // other, slots=room.slots * f16 // other)
    return start(more, kv_type)


def _edgekv_keeps(room: Room, kv_type: str) -> AbstractContextManager[Server]:
    return _edgekv(room, "--kv-type", kv_type, "--host-cache", "0", "--disk-cache", "0")


def _llama_server_keeps(program: Path, room: Room, kv_type: str) -> AbstractContextManager[Server]:
    types = ("-ctk", kv_type, "-ctv", kv_type)
    return _llama_server(
        program, room, *types, "-np", str(room.slots), "--kv-unified", "--cache-ram", "0"
    )


def with_workers(_: Peers) -> list[Contestant]:
    """EdgeKV alone, and with half of the layers on a worker of the same machine."""
    return [
        Contestant("EdgeKV", "--slots S --cells C --ctx N", _edgekv),
        Contestant("EdgeKV with a worker", "--workers 127.0.0.1:PORT --gpu-layers HALF", _lent),
    ]


@contextlib.contextmanager
def _lent(room: Room) -> Iterator[Server]:
    half = str(num_layers(room.model) // 2)
    enough = Path(room.model).stat().st_size + ENOUGH_BESIDE_WEIGHTS
    with (
        lender(enough, "--threads", str(room.threads)) as worker,
        _edgekv(room, "--workers", worker.address, "--gpu-layers", half) as server,
    ):
        yield server


def _edgekv(room: Room, *options: str) -> AbstractContextManager[Server]:
    return edgekv(
        room.model,
        *("--slots", str(room.slots), "--cells", str(room.cells)),
        *("--ctx", str(room.context_length), "--threads", str(room.threads)),
        *options,
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
