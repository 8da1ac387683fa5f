"""A long time of everything at once, and whether the server is afterwards as it was before.

Callers of every kind (`bench/callers.py`), three times as many as the server runs and lets wait.
In the first six tenths of the time its engine is killed again and again, and every other minute
its disk is full: the process may then write no file as long as a copy of cells. Then load alone,
until the last engine has settled, and for four tenths of the time more, in which memory must stay
flat. Then nobody asks, and what is left is looked at.

    make soak               # 30 minutes
    make soak MINUTES=5

Exit code 1 if a request ended as none should, memory grew, a cell had no holder, or a file, a
process, a thread or a handle stayed. Nothing here depends on how fast the machine is.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.callers import CONTEXT_LENGTH, Load
from bench.remains import Idle, Watch, growth_mib, idle, left_files
from bench.report import report
from bench.serving import Server, edgekv, kill_engine

MIB = 1024 * 1024
SLOTS, QUEUE = 4, 8
NUM_CALLERS = 3 * (SLOTS + QUEUE)
HOST_LIMIT_BYTES = 16 * MIB
DISK_LIMIT_BYTES = 64 * MIB
OPTIONS = (
    *(
        "--ctx",
        str(CONTEXT_LENGTH),
        "--slots",
        str(SLOTS),
        "--cells",
        "1536",
        "--queue",
        str(QUEUE),
    ),
    *("--host-cache", str(HOST_LIMIT_BYTES), "--disk-cache", str(DISK_LIMIT_BYTES)),
)
ROUGH = 0.6
"""The part of the time in which things break."""
SECONDS_BETWEEN_KILLS = 45.0
SECONDS_OF_FULL_DISK = 60.0
LARGEST_FILE_BYTES = MIB
"""While the disk is full: less than a copy of 50 cells, more than a log needs."""
MOST_GROWTH_MIB = 1.0
"""In ten minutes."""
ANSWERS_TO_SETTLE = 400
"""After so many every cell was used, and the store is full: what grows then is a leak."""
ENDS_RIGHT = ("whole", "left", "turned_away", "refused")


@dataclass(slots=True)
class Trouble:
    """What is done to a server."""

    server: Server
    load: Load
    num_kills: int = 0
    num_full_disks: int = 0

    async def run(self, seconds: float) -> None:
        """Afterwards everything is as it should be again."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
                group.create_task(self._kill())
                group.create_task(self._fill_the_disk())
        limit_files(self.server, None)

    async def _kill(self) -> None:
        """Not before all that saw the last kill have ended: a request that engines die of again
        and again while it runs alone is not tried once more, rightly."""
        saw_the_last: set[int] = set()
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_KILLS)
            while saw_the_last & self.load.under_way:
                await asyncio.sleep(1)
            saw_the_last = set(self.load.under_way)
            kill_engine(self.server)
            self.num_kills += 1

    async def _fill_the_disk(self) -> None:
        while True:
            await asyncio.sleep(SECONDS_OF_FULL_DISK)
            self.num_full_disks += 1
            end = time.monotonic() + SECONDS_OF_FULL_DISK
            while time.monotonic() < end:
                limit_files(self.server, LARGEST_FILE_BYTES)  # an engine started meanwhile, too
                await asyncio.sleep(1)
            limit_files(self.server, None)


def limit_files(server: Server, num_bytes: int | None) -> None:
    """Let the engine write no longer files; on Linux, elsewhere nothing is done."""
    if sys.platform != "linux":
        return
    engine = server.engine()
    if engine is None:
        return
    with contextlib.suppress(psutil.NoSuchProcess):
        _, hard = engine.rlimit(psutil.RLIMIT_FSIZE)
        engine.rlimit(psutil.RLIMIT_FSIZE, (hard if num_bytes is None else num_bytes, hard))


@dataclass(frozen=True, slots=True)
class Soaked:
    load: Load
    trouble: Trouble
    before: Idle
    after: Idle
    growth_mib: dict[str, float]
    """In ten minutes, of the front end and of the engine."""
    served: dict[str, float]
    """By outcome, as the server counted."""


async def soak(server: Server, seconds: float) -> Soaked:
    load = Load(server.url, seed=1)
    first = Load(server.url, seed=0)  # whatever is made at the first request is there
    asyncio.get_running_loop().call_later(1, first.stop)
    await first.run(1)
    before = await idle(server)
    watch, trouble = Watch(server), Trouble(server, load)
    watching = asyncio.create_task(watch.run())
    calling = asyncio.create_task(load.run(NUM_CALLERS))
    await trouble.run(ROUGH * seconds)
    ended = load.num_ended
    while load.num_ended < ended + ANSWERS_TO_SETTLE:
        await asyncio.sleep(1)
    settled = time.monotonic()
    await asyncio.sleep((1 - ROUGH) * seconds)
    load.stop()
    await calling
    watching.cancel()
    growth = {
        "front_end": growth_mib(watch.front_end, settled),
        "engine": growth_mib(watch.last_engine, settled),
    }
    served = {k: v for k, v in server.metrics().items() if k.startswith("edgekv_requests_total{")}
    return Soaked(load, trouble, before, await idle(server), growth, served)


def faults(soaked: Soaked, minutes: float) -> list[str]:
    """Sentences; none if all is well."""
    outcomes, found = soaked.load.outcomes, []
    if outcomes.total() != soaked.load.num_sent:
        found.append(f"{soaked.load.num_sent} requests were sent and {outcomes.total()} ended")
    found += [f"{n} requests were {k}" for k, n in outcomes.items() if k not in ENDS_RIGHT]
    for name, growth in soaked.growth_mib.items():
        if growth > MOST_GROWTH_MIB and minutes >= 10:
            found.append(f"the {name} grew by {growth:.2f} MiB in ten minutes")
    if soaked.after.cells_held_by_nobody:
        found.append(f"{soaked.after.cells_held_by_nobody} cells are held by nobody")
    for what in ("handles", "threads"):
        more = getattr(soaked.after, what) - getattr(soaked.before, what)
        if more > 0:
            found.append(f"{more} {what} stayed open")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default="models/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--serve", action="append", default=[], help="an option for edgekv serve")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="edgekv-soak-") as folder:
        with edgekv(options.model, *OPTIONS, *options.serve, home=Path(folder)) as server:
            soaked = asyncio.run(soak(server, 60 * options.minutes))
            children = server.processes()
        found = faults(soaked, options.minutes)
        found += [f"process {child.pid} still runs" for child in children if child.is_running()]
        found += [f"left behind: {what}" for what in left_files(Path(folder), DISK_LIMIT_BYTES)]
    result: dict[str, object] = {
        "minutes": options.minutes,
        "callers": NUM_CALLERS,
        "sent": soaked.load.num_sent,
        **dict(soaked.load.outcomes),
        "errors": dict(soaked.load.errors),
        "engine_kills": soaked.trouble.num_kills,
        "full_disks": soaked.trouble.num_full_disks,
        **{f"{k}_mib_in_ten_minutes": round(v, 3) for k, v in soaked.growth_mib.items()},
        "before": str(soaked.before),
        "after": str(soaked.after),
        "served": soaked.served,
        "faults": found,
    }
    report("soak", options.model, result)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
