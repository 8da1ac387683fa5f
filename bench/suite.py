"""Every load on EdgeKV and on each peer that is here, one server after the other, in rounds.

    python -m bench.suite --list
    python -m bench.suite fan_out spike --llama-server PATH --batched-bench PATH
    python -m bench.suite curves                    # EdgeKV's own costs, in CPU time

All servers get the same model, cells and threads (`bench/contestants.py`). They take turns, so
that whatever else the machine does meets all of them; a request that warms up is not counted.
Before anything else the ceiling is measured: what llama.cpp decodes without a server around it,
or else what the memory allows. Each load goes into `bench/results/VERSION.json` as soon as it is
done, in the place of an earlier one, so a run may be of some loads only and may be broken off.
`--quiet` says that nothing else computed meanwhile. `--short` sees that everything works and keeps
nothing unless `--results` says where. The last line is one JSON document.

    python -m bench.publish                         # the tables and pictures of README and docs
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from bench import curves, decode, results
from bench.asking import Asking, Figures
from bench.contestants import Contestant, Peers, Room
from bench.memory import peak_resident_bytes
from bench.report import surroundings
from bench.restart import measure as measure_restart
from bench.serving import Server
from bench.workloads import AT_ONCE, FULL, SHORT, Workload

PATIENCE = 8
"""How many times as long as a quiet machine takes a load may last."""
ALONE = {
    "restart": (1.5, "a long conversation after kill -9"),
    "curves": (2.0, "CPU time against sequences, kept tokens, ids and connections"),
}
"""Loads of EdgeKV alone: minutes, and what they are."""


async def one_round(contestant: Contestant, workload: Workload, room: Room) -> Figures:
    asking = workload.asking(room)
    try:
        with contestant.start(room) as server:
            limit = PATIENCE * 60 * workload.minutes
            figures = await _in_time(asking, server.url, limit) | _peak_memory(server)
    except SystemExit as error:
        return {"errors": [str(error)], "finished": 0}
    return figures | {"prompt_tokens_necessary": await asking.necessary(room.model)}


async def _in_time(asking: Asking, url: str, seconds: float) -> Figures:
    """A server that answers no more holds up nobody: what it did so far is what it did."""
    try:
        async with asyncio.timeout(seconds):
            await asking.run(url)
    except TimeoutError:
        return asking.figures() | {"errors": [f"not done after {seconds:.0f} s"]}
    return asking.figures()


def _peak_memory(server: Server) -> Figures:
    """Of all its processes together; pages that two of them share count twice."""
    if server.pid is None or sys.platform != "linux":
        return {}
    with contextlib.suppress(psutil.NoSuchProcess):
        living = [p for p in server.processes() if p.status() != psutil.STATUS_ZOMBIE]
        peaks = [peak_resident_bytes(process.pid) for process in living]
        return {"peak_resident_mib": round(sum(peaks) / 1024**2)}
    return {}


async def compare(
    workload: Workload, servers: Sequence[Contestant], room: Room
) -> dict[str, object]:
    rounds: dict[str, list[Figures]] = {server.name: [] for server in servers}
    for number in range(workload.rounds):
        for server in servers:
            began = time.monotonic()
            rounds[server.name].append(await one_round(server, workload, room))
            _say(f"{workload.name} {number + 1}: {server.name}, {time.monotonic() - began:.0f} s")
    return {
        "what": workload.what,
        "slots": room.slots,
        "cells": room.cells,
        "context_length": room.context_length,
        "threads": room.threads,
        "rounds": workload.rounds,
        "servers": {
            server.name: {"how": server.how, **results.summary(rounds[server.name])}
            for server in servers
        },
    }


def measure(name: str, given: argparse.Namespace) -> dict[str, object]:
    """One load by its name, without its surroundings."""
    if name == "curves":
        return curves.measure(given.model, short=given.short)
    if name == "restart":
        num_words = 100 if given.short else 3700
        return {"what": ALONE[name][1], **asyncio.run(measure_restart(given.model, num_words, 16))}
    workload = next(w for w in (SHORT if given.short else FULL) if w.name == name)
    room = Room(given.model, workload.slots, workload.cells, workload.context_length, given.threads)
    top = _ceiling(given) if name == "decode" else {}
    return asyncio.run(compare(workload, workload.servers(_peers(given)), room)) | top


def _ceiling(given: argparse.Namespace) -> dict[str, object]:
    if given.batched_bench is None:
        return {"ceiling": decode.memory_ceiling(given.model, list(AT_ONCE))}
    tokens = 16 if given.short else 128
    top = decode.ceiling(
        str(given.batched_bench), given.model, list(AT_ONCE), tokens, given.threads
    )
    return {"ceiling": {str(n): round(speed, 1) for n, speed in top.items()}}


def _peers(given: argparse.Namespace) -> Peers:
    return Peers(given.llama_server, given.example_server, given.example_python, tuple(given.url))


def _say(sentence: str) -> None:
    sys.stderr.write(sentence + "\n")


def _list(peers: Peers) -> None:
    for workload in FULL:
        minutes = workload.minutes * workload.rounds * len(workload.servers(peers))
        sys.stdout.write(f"{workload.name:12} {minutes:5.1f} min  {workload.what}\n")
    for name, (minutes, what) in ALONE.items():
        sys.stdout.write(f"{name:12} {minutes:5.1f} min  {what}\n")


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    names = [*(workload.name for workload in FULL), *ALONE]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("loads", nargs="*", metavar="LOAD", help=f"{', '.join(names)}; or all")
    parser.add_argument("--model", default="models/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--llama-server", type=Path)
    parser.add_argument("--example-server", type=Path, help="examples/server/server.py")
    parser.add_argument("--example-python", default=sys.executable, help="what runs it")
    parser.add_argument("--url", action="append", default=[], help="NAME=http://…/v1")
    parser.add_argument("--batched-bench", type=Path, help="llama-batched-bench")
    parser.add_argument("--quiet", action="store_true", help="nothing else computes")
    parser.add_argument("--short", action="store_true", help="see that everything works")
    parser.add_argument("--results", type=Path, help="the file to merge into")
    parser.add_argument("--list", action="store_true", help="what there is, and how long it takes")
    given = parser.parse_args(arguments)
    if unknown := set(given.loads) - set(names):
        parser.error(f"no load is called {', '.join(sorted(unknown))}; there is {', '.join(names)}")
    given.loads = given.loads or names
    return given


def main() -> None:
    given = parsed()
    if given.list:
        _list(_peers(given))
        return
    path = given.results or (None if given.short else results.file_of_this_version())
    document: dict[str, object] = {}
    for name in given.loads:
        load = measure(name, given) | {"quiet": given.quiet, **surroundings(given.model)}
        document[name] = load
        if path is not None:
            results.merge(path, name, load)
    sys.stdout.write(json.dumps({"bench": "suite", "loads": document}) + "\n")


if __name__ == "__main__":
    main()
