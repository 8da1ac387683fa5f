"""How short memory is while a model answers, and what is given up for it. Pure: it is told what
was read and when.

    calm ⇄ tight ⇄ scarce ⇄ critical

A level is entered at once and left one at a time, when there has been clearly more memory than
it asks for over `SECONDS_TO_EASE`: so a program that takes memory and gives it back does not make
the engine shrink and grow with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

from edgekv.core.restraint import Restraint

SECONDS_TO_EASE = 20.0
SECONDS_TO_GROW = 60.0
"""Of calm, before a pool that was made smaller grows into the least that was left meanwhile."""


class Level(IntEnum):
    CALM = 0
    TIGHT = 1
    """What is kept for reuse leaves the pool and host memory for the disk."""
    SCARCE = 2
    """And fewer requests run at once."""
    CRITICAL = 3
    """And the pool becomes smaller."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Parts of the margin: a level is entered below `enter` and left above `leave`."""

    enter: float
    leave: float


BOUNDS = {
    Level.TIGHT: Bounds(6 / 8, 7 / 8),
    Level.SCARCE: Bounds(4 / 8, 5 / 8),
    Level.CRITICAL: Bounds(2 / 8, 3 / 8),
}

STALLS = {Level.TIGHT: Bounds(10.0, 5.0), Level.SCARCE: Bounds(30.0, 15.0)}
"""Percent: here a level is entered above `enter`. Waiting alone does not shrink the pool, for it
may be others' memory that everybody waits for.
"""


@dataclass(frozen=True, slots=True)
class Room:
    """What is left of one pool of memory. All are bytes."""

    device: str
    spare_bytes: int
    """Left if the plan is filled to the last byte. Below 0 the plan cannot be filled."""
    idle_bytes: int
    """What of the plan stays empty while nothing is kept."""
    margin_bytes: int
    """What should be left."""
    is_host: bool = True
    """Nothing but a smaller pool gives memory back to a graphics device."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is given up now, and since when less would have been enough."""

    level: Level = Level.CALM
    since_seconds: float = 0.0


def next_outlook(
    outlook: Outlook, rooms: Iterable[Room], stall_percent: float, now_seconds: float
) -> Outlook:
    rooms = tuple(rooms)
    wanted = max((level for level in BOUNDS if _enters(level, rooms, stall_percent)), default=None)
    if wanted is not None and wanted > outlook.level:
        return Outlook(wanted, now_seconds)
    if outlook.level is Level.CALM:
        return outlook
    if not _leaves(outlook.level, rooms, stall_percent):
        return replace(outlook, since_seconds=now_seconds)
    if now_seconds - outlook.since_seconds < SECONDS_TO_EASE:
        return outlook
    return Outlook(Level(outlook.level - 1), now_seconds)


def restraint(level: Level, slots: int) -> Restraint:
    """What an engine with so many slots does without at a level."""
    return Restraint(
        keeps=level < Level.TIGHT,
        slots=max(1, slots // 2) if level >= Level.SCARCE else None,
    )


def asks_for_less(rooms: Iterable[Room]) -> bool:
    """Whether with these rooms something would be given up, or would be soon."""
    rooms = tuple(rooms)
    return not _leaves(Level.TIGHT, rooms, 0.0) or not _leaves(Level.CRITICAL, rooms, 0.0)


def asks_for_a_smaller_pool(rooms: Iterable[Room]) -> bool:
    return _enters(Level.CRITICAL, tuple(rooms), 0.0)


def scarcest(rooms: Iterable[Room]) -> Room:
    """The one with the smallest part of its margin left."""
    return min(rooms, key=lambda room: room.spare_bytes / max(1, room.margin_bytes))


def _enters(level: Level, rooms: tuple[Room, ...], stall_percent: float) -> bool:
    if level in STALLS and stall_percent >= STALLS[level].enter:
        return True
    return any(_left(level, room) < BOUNDS[level].enter * room.margin_bytes for room in rooms)


def _leaves(level: Level, rooms: tuple[Room, ...], stall_percent: float) -> bool:
    if level in STALLS and stall_percent >= STALLS[level].leave:
        return False
    return all(_left(level, room) >= BOUNDS[level].leave * room.margin_bytes for room in rooms)


def _left(level: Level, room: Room) -> int:
    """What counts for a level. By the time the pool is made smaller, nothing is kept."""
    if level is Level.CRITICAL:
        return room.spare_bytes + room.idle_bytes
    # A graphics device asks for nothing below the last level.
    return room.spare_bytes if room.is_host else room.margin_bytes
