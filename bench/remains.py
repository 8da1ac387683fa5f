"""What a server holds and leaves behind: memory, handles, cells, files, processes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import statistics
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.serving import Server

MIB = 1024 * 1024
SECONDS_BETWEEN_LOOKS = 2.0
SECONDS_TO_CALM = 120.0


@dataclass(slots=True)
class Watch:
    """The resident bytes of the front end and of its engine over time."""

    server: Server
    front_end: list[tuple[float, int]] = field(default_factory=list)
    engines: dict[int, list[tuple[float, int]]] = field(default_factory=dict)
    """By process id: a killed engine is followed by another."""

    async def run(self) -> None:
        while True:
            with contextlib.suppress(psutil.NoSuchProcess):
                self.look()
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)

    def look(self) -> None:
        now = time.monotonic()
        self.front_end.append((now, psutil.Process(self.server.pid).memory_info().rss))
        if (engine := self.server.engine()) is not None:
            held = self.engines.setdefault(engine.pid, [])
            held.append((now, engine.memory_info().rss))

    @property
    def last_engine(self) -> list[tuple[float, int]]:
        return next(reversed(self.engines.values()), [])


def growth_mib(samples: Sequence[tuple[float, int]], begin: float) -> float:
    """MiB in ten minutes, from the moment `begin` on: the median slope of all pairs (Theil-Sen).

    Least squares would follow the single jumps that an allocator makes.
    """
    later = [(moment, held) for moment, held in samples if moment >= begin]
    pairs = itertools.combinations(later, 2)
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairs]
    return 600 * statistics.median(slopes) / MIB if slopes else 0.0


@dataclass(frozen=True, slots=True)
class Idle:
    """What a server has while nobody asks it anything."""

    handles: int
    """Open files and sockets of the front end."""
    threads: int
    cells_held_by_nobody: int
    """Used, but neither running nor kept; -1 if requests would not end."""


async def idle(server: Server) -> Idle:
    """Wait until nothing runs, waits or is suspended, and look."""
    deadline = time.monotonic() + SECONDS_TO_CALM
    while (busy := _num_busy(server.metrics())) and time.monotonic() < deadline:
        await asyncio.sleep(0.5)
    front = psutil.Process(server.pid)
    return Idle(front.num_fds(), front.num_threads(), -1 if busy else _unheld(server))


def _num_busy(metrics: dict[str, float]) -> float:
    return sum(metrics[f"edgekv_{name}"] for name in ("running", "queue_length", "suspended"))


def _unheld(server: Server) -> int:
    """Cells in use less those of kept sequences, by what `GET /kv` says who holds them."""
    with urllib.request.urlopen(server.root + "/kv") as page:
        runs = json.loads(page.read())["runs"]
    kept: int = sum(run["num_cells"] for run in runs if run["kept"] and not run["running"])
    return int(server.metrics()['edgekv_cells{state="used"}']) - kept


def left_files(home: Path, disk_limit_bytes: int) -> list[str]:
    """Files that should not be there once the server has ended, and why."""
    cells = list(home.rglob("*.cells"))
    size = sum(path.stat().st_size for path in cells)
    wrong = [f"{size} bytes of cells, {disk_limit_bytes} may be"] if size > disk_limit_bytes else []
    unfinished = [*home.rglob("*.part"), *home.glob("tmp/*"), *home.glob("run/**/*.*")]
    return wrong + [str(path.relative_to(home)) for path in unfinished]
