"""Watches how requests come and end, and warns before they have to wait for long."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

from edgekv.core.frames import Snapshot
from edgekv.core.plan import MemoryPlan
from edgekv.service import load_words
from edgekv.service.conduct import Conduct
from edgekv.traffic.load import Forecast, Load, Look

SECONDS_BETWEEN_LOOKS = 1.0
FIRST_GUESS_SECONDS = 1.0
"""An answer takes so long until one has ended."""

_log = logging.getLogger("edgekv.load")


class Watched(Protocol):
    @property
    def snapshot(self) -> Snapshot: ...

    @property
    def plan(self) -> MemoryPlan | None: ...

    @property
    def conduct(self) -> Conduct: ...


class LoadWatch:
    """Is told of every request that comes, and of every one that is over."""

    def __init__(self, watched: Watched, clock: Callable[[], float] = time.monotonic) -> None:
        self._watched, self._clock = watched, clock
        self._load, self._looked_at = Load(), clock()
        self._num_came = self._num_ended = 0
        """Since the last look."""
        self.forecast = Forecast()
        """As of the last look."""

    def come(self) -> None:
        self._num_came += 1

    def end(self) -> None:
        """For whatever reason, but one that was never let in."""
        self._num_ended += 1

    def expected_wait(self) -> float:
        """Seconds until whoever comes now would start; 1 at least."""
        plan, per_second = self._watched.plan, self.forecast.end_per_second
        slots = plan.choice.slots if plan else 1
        num_waiting = self._watched.snapshot.num_waiting
        return max(1.0, num_waiting / (per_second or slots / FIRST_GUESS_SECONDS))

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            self.look()

    def look(self) -> None:
        """Learn from what has come and ended, and say once where it leads."""
        plan, snapshot, now = self._watched.plan, self._watched.snapshot, self._clock()
        if plan is None:
            return
        before = self.forecast.level
        self.forecast = self._load.learn(
            Look(
                now - self._looked_at,
                self._num_came,
                self._num_ended,
                snapshot.num_running,
                snapshot.num_waiting,
                plan.choice.slots,
                self._watched.conduct.max_waiting,
            )
        )
        self._looked_at, self._num_came, self._num_ended = now, 0, 0
        if self.forecast.level > before:
            _log.warning("%s", load_words.warning(self.forecast, plan.choice.slots))
        elif self.forecast.level < before:
            _log.warning("%s", load_words.all_well(self.forecast))
