"""Where a load leads: how long requests wait, when the queue will be full, and at which wall.

By Little's law whoever comes now waits until those before have gone, as fast as requests end
while others wait for them. What comes beyond that makes the queue grow.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from math import exp, sqrt

import msgspec

COMING_SECONDS, GOING_SECONDS = 60.0, 300.0
"""What is older by so much counts for a third. How many come may change at once; how many a machine
gets done hardly does, and where answers take a minute, few end in one."""
LONG_WAIT_SECONDS, SHORT_WAIT_SECONDS = 30.0, 15.0
"""From the first on a wait is worth a warning, and below the second no more."""
SOON_SECONDS = 600.0
"""A queue that will be full by then is worth a warning."""
SECONDS_TO_WARN, SECONDS_TO_CALM = 15.0, 60.0
"""So long must all look worse, or better, before it is said: a burst is no load."""
PART_TO_WARN = 1 / 4
"""A warning that the queue fills waits for no more than such a part of the time that is left."""


class Wall(StrEnum):
    MEMORY = "memory"
    COMPUTE = "compute"
    NONE = "none"


class Level(IntEnum):
    CALM = 0
    WAITING = 1
    """Requests wait for long."""
    FILLING = 2
    """And the queue will soon be full."""
    FULL = 3
    """Requests are turned away."""


class Rate:
    """How often something happens of late. Knows no clock: it is told how much time has passed."""

    def __init__(self, horizon_seconds: float) -> None:
        self._horizon_seconds = horizon_seconds
        self._num, self._seconds = 0.0, 0.0
        """What happened, and the time in which it did; both forget alike."""

    def learn(self, seconds: float, num: float) -> None:
        """So much happened, evenly, in the seconds since it was told last: more than none."""
        kept = exp(-seconds / self._horizon_seconds)
        new_seconds = self._horizon_seconds * (1 - kept)
        self._num = self._num * kept + num * new_seconds / seconds
        self._seconds = self._seconds * kept + new_seconds

    @property
    def per_second(self) -> float:
        return self._num / self._seconds if self._seconds else 0.0

    @property
    def variance(self) -> float:
        """Of `per_second`, if what happens comes by chance (Poisson)."""
        return self.per_second / (2 * self._seconds) if self._seconds else 0.0


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of an engine, and how many requests came and ended since the last look."""

    seconds: float
    """Since the last look."""
    num_came: int
    """Those turned away included."""
    num_ended: int
    """Those turned away not included."""
    num_running: int
    num_waiting: int
    slots: int
    most_waiting: int | None
    """More are turned away. None: any number may wait."""


class Forecast(msgspec.Struct, frozen=True):
    level: Level = Level.CALM
    wall: Wall = Wall.NONE
    """What requests wait for; none if none waits."""
    come_per_second: float = 0.0
    end_per_second: float = 0.0
    """While others wait: what the machine gets done."""
    num_waiting: int = 0
    most_waiting: int | None = None
    wait_seconds: float = 0.0
    """Of a request that comes now, until it starts."""
    full_in_seconds: float | None = None
    """None if the queue does not grow, or only by chance, or nothing has ended yet."""


class Load:
    """Learns from looks, and says where the load leads."""

    def __init__(self) -> None:
        self._come, self._end = Rate(COMING_SECONDS), Rate(GOING_SECONDS)
        self._short = Rate(SECONDS_TO_CALM)
        """The part of the waiting during which slots were free: cells were missing, not speed."""
        self._level = Level.CALM
        self._worse_seconds, self._better_seconds = 0.0, 0.0

    def learn(self, look: Look) -> Forecast:
        self._come.learn(look.seconds, look.num_came)
        if look.num_waiting:
            self._end.learn(look.seconds, look.num_ended)
            is_short = look.num_running < look.slots
            self._short.learn(look.seconds, look.seconds if is_short else 0.0)
        wait, full = self._wait_seconds(look), self._full_in_seconds(look)
        hold = SECONDS_TO_WARN if full is None else min(SECONDS_TO_WARN, PART_TO_WARN * full)
        self._go_on(look.seconds, _level(look, wait, full), hold, is_calm=_is_calm(look, wait))
        return Forecast(
            self._level,
            self._wall if look.num_waiting else Wall.NONE,
            self._come.per_second,
            self._end.per_second,
            look.num_waiting,
            look.most_waiting,
            wait,
            full,
        )

    @property
    def _wall(self) -> Wall:
        return Wall.MEMORY if self._short.per_second > 1 / 2 else Wall.COMPUTE

    def _wait_seconds(self, look: Look) -> float:
        """0 as well where none of those that run has ended yet: then nothing is known."""
        per_second = self._end.per_second
        return look.num_waiting / per_second if per_second else 0.0

    def _full_in_seconds(self, look: Look) -> float | None:
        if look.most_waiting is None or not look.num_waiting or not self._end.per_second:
            return None
        growth = self._come.per_second - self._end.per_second
        if growth <= sqrt(self._come.variance + self._end.variance):
            return None
        return max(0, look.most_waiting - look.num_waiting) / growth

    def _go_on(self, seconds: float, level: Level, hold: float, *, is_calm: bool) -> None:
        """A level is entered when things have been as bad for `hold` seconds, and left for calm
        alone that began after it: so each is said once, until all is well again.
        """
        self._worse_seconds = self._worse_seconds + seconds if level > self._level else 0.0
        self._better_seconds = self._better_seconds + seconds if is_calm else 0.0
        if level > self._level and (level is Level.FULL or self._worse_seconds >= hold):
            self._level = level
            self._worse_seconds = self._better_seconds = 0.0
        elif self._better_seconds >= SECONDS_TO_CALM:
            self._level = Level.CALM


def _level(look: Look, wait_seconds: float, full_in_seconds: float | None) -> Level:
    if look.most_waiting is not None and look.num_waiting >= max(1, look.most_waiting):
        return Level.FULL
    if full_in_seconds is not None and full_in_seconds <= SOON_SECONDS:
        return Level.FILLING
    return Level.WAITING if wait_seconds >= LONG_WAIT_SECONDS else Level.CALM


def _is_calm(look: Look, wait_seconds: float) -> bool:
    is_far_from_full = look.most_waiting is None or 2 * look.num_waiting < max(1, look.most_waiting)
    return wait_seconds < SHORT_WAIT_SECONDS and is_far_from_full
