"""What a warning from rates is worth: how long before the first request is turned away it comes.

    python -m bench.foreseen_queues --trace azure2023_conv_first2000.csv

The trace is simulated at several loads, and the engine is looked at once a second, as the server
does (`traffic/load.py`). Beside it a rule without rates: half of the queue is full. A warning
without a request turned away after it is a false one. No model is needed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.foresight import STEPS, paced
from edgekv.core.events import EngineEvent, Failed, Finished
from edgekv.core.frames import Snapshot
from edgekv.traffic.load import Level, Load, Look
from edgekv.traffic.room import Room
from edgekv.traffic.simulation import simulate
from edgekv.traffic.step_time import StepTime
from edgekv.traffic.trace import Trace, read_trace

LOADS = (2.0, 3.0, 4.0, 6.0, 12.0)


@dataclass(slots=True)
class Watched:
    """When what was first seen, in simulated seconds; None: never."""

    waiting: float | None = None
    filling: float | None = None
    half_full: float | None = None
    turned_away: float | None = None
    foreseen_seconds: float | None = None
    """What the first warning of a full queue said."""
    wall: str = ""
    num_warnings: int = 0


class Watcher:
    """Hears every step of a simulation, and looks once a second."""

    def __init__(self, trace: Trace, room: Room) -> None:
        self._arrivals = [request.arrival_seconds for request in trace.requests]
        self._room, self._load, self.seen = room, Load(), Watched()
        self._looked, self._num_came, self._num_ended, self._ended_before = 0.0, 0, 0, 0
        self._level = Level.CALM

    def hear(self, now: float, events: Sequence[EngineEvent], snapshot: Snapshot) -> None:
        self._num_ended += sum(isinstance(event, Finished | Failed) for event in events)
        came = self._num_came
        while came < len(self._arrivals) and self._arrivals[came] <= now:
            came += 1
        in_system = snapshot.num_running + snapshot.num_waiting
        if self.seen.turned_away is None and came - self._num_ended > in_system + len(events) + 1:
            self.seen.turned_away = now
        if now - self._looked < 1:
            return
        look = Look(
            now - self._looked,
            came - self._num_came,
            self._num_ended - self._ended_before,
            snapshot.num_running,
            snapshot.num_waiting,
            self._room.slots,
            self._room.max_waiting,
        )
        self._looked, self._num_came, self._ended_before = now, came, self._num_ended
        self._note(now, look)

    def _note(self, now: float, look: Look) -> None:
        seen, found = self.seen, self._load.learn(look)
        if found.level > self._level:
            seen.num_warnings += 1
            seen.wall = found.wall.value
        self._level = found.level
        if found.level >= Level.WAITING and seen.waiting is None:
            seen.waiting = now
        if found.level == Level.FILLING and seen.filling is None:
            seen.filling, seen.foreseen_seconds = now, found.full_in_seconds
        if seen.half_full is None and look.num_waiting * 2 >= (look.most_waiting or 0):
            seen.half_full = now


def watched(trace: Trace, room: Room, steps: StepTime) -> dict[str, object]:
    watcher = Watcher(trace, room)
    run = simulate(trace, room, steps, watcher.hear)
    seen = watcher.seen
    end = seen.turned_away if run.refused else None
    return {
        "turned_away": run.refused,
        "first_at": _rounded(end),
        "filling_at": _rounded(seen.filling),
        "said_in": _rounded(seen.foreseen_seconds),
        "waiting_at": _rounded(seen.waiting),
        "half_full_at": _rounded(seen.half_full),
        "wall": seen.wall,
        "warnings": seen.num_warnings,
        "seconds": _rounded(run.seconds),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description="What a warning from rates is worth.")
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--requests", type=int, default=600)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--cells", type=int, default=16_384)
    parser.add_argument("--queue", type=int, default=64)
    parser.add_argument("--steps", choices=STEPS, default="wide")
    options = parser.parse_args()
    room = Room(
        slots=options.slots,
        kept=4,
        cells=options.cells,
        context_length=options.cells,
        batch=512,
        max_waiting=options.queue,
    )
    whole = read_trace(options.trace)
    trace = Trace(whole.no_longer_than(options.cells).requests[: options.requests])
    steps, found = STEPS[options.steps], {}
    alone = paced(trace, replace(room, max_waiting=None), steps, 1.0)
    for load in LOADS:
        coming = alone.faster(load)
        found[str(load)] = watched(coming, room, steps)
        sys.stdout.write(f"{load:4} {found[str(load)]}\n")
        sys.stdout.flush()
    sys.stdout.write(json.dumps({"bench": "foreseen_queues", "trace": options.trace.name} | found))
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
