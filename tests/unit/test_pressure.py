"""What is given up as memory gets short, and when it comes back."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgekv.budget.pressure import (
    BOUNDS,
    SECONDS_TO_EASE,
    Level,
    Outlook,
    Room,
    next_outlook,
    restraint,
    scarcest,
)

MARGIN = 800
LEVELS = list(BOUNDS)


def room(spare: int, *, idle: int = 0, is_host: bool = True) -> Room:
    return Room("CPU" if is_host else "CUDA0", spare, idle, MARGIN, is_host)


def after(
    spares: list[int], *, seconds_apart: float = 1.0, start: Outlook | None = None
) -> list[Outlook]:
    """The outlook after each look."""
    outlook, outlooks = start or Outlook(), []
    for number, spare in enumerate(spares):
        outlook = next_outlook(outlook, [room(spare)], 0.0, number * seconds_apart)
        outlooks.append(outlook)
    return outlooks


@pytest.mark.parametrize(
    ("spare", "level"),
    [
        (800, Level.CALM),
        (600, Level.CALM),
        (599, Level.TIGHT),
        (399, Level.SCARCE),
        (199, Level.CRITICAL),
        (-5000, Level.CRITICAL),
    ],
)
def test_the_less_is_left_the_more_is_given_up_at_once(spare: int, level: Level) -> None:
    assert after([spare])[0].level is level


def test_what_stays_empty_while_nothing_is_kept_spares_the_pool() -> None:
    assert next_outlook(Outlook(), [room(-100)], 0.0, 0.0).level is Level.CRITICAL
    assert next_outlook(Outlook(), [room(-100, idle=300)], 0.0, 0.0).level is Level.SCARCE


def test_waiting_for_memory_gives_up_what_is_kept_but_never_the_pool() -> None:
    plenty = [room(10 * MARGIN)]
    assert next_outlook(Outlook(), plenty, 9.9, 0.0).level is Level.CALM
    assert next_outlook(Outlook(), plenty, 10.0, 0.0).level is Level.TIGHT
    assert next_outlook(Outlook(), plenty, 100.0, 0.0).level is Level.SCARCE


def test_a_graphics_device_asks_for_a_smaller_pool_or_nothing() -> None:
    rooms = [room(10 * MARGIN), room(300, is_host=False)]
    assert next_outlook(Outlook(), rooms, 0.0, 0.0).level is Level.CALM
    rooms = [room(10 * MARGIN), room(100, is_host=False)]
    assert next_outlook(Outlook(), rooms, 0.0, 0.0).level is Level.CRITICAL
    assert scarcest(rooms).device == "CUDA0"


@given(st.lists(st.integers(-2 * MARGIN, 3 * MARGIN), min_size=1, max_size=60))
def test_a_level_is_never_lower_than_what_is_read_asks_for(spares: list[int]) -> None:
    for spare, outlook in zip(spares, after(spares), strict=True):
        assert all(
            outlook.level >= level for level in LEVELS if spare < BOUNDS[level].enter * MARGIN
        )


@given(st.lists(st.integers(-2 * MARGIN, 3 * MARGIN), min_size=2, max_size=200))
def test_levels_are_left_one_at_a_time_and_not_before_their_time(spares: list[int]) -> None:
    changed_at = 0
    for number, (before, now) in enumerate(pairwise(after(spares)), start=1):
        if now.level < before.level:
            assert now.level == before.level - 1
            assert number - changed_at >= SECONDS_TO_EASE
            needed = BOUNDS[before.level].leave * MARGIN
            assert min(spares[number - int(SECONDS_TO_EASE) : number + 1]) >= needed
        if now.level != before.level:
            changed_at = number


@given(st.lists(st.integers(-2 * MARGIN, 3 * MARGIN), max_size=60))
def test_enough_memory_for_long_enough_brings_everything_back(spares: list[int]) -> None:
    outlooks = after([*spares, *[2 * MARGIN] * (3 * int(SECONDS_TO_EASE) + 4)])
    assert outlooks[-1].level is Level.CALM


@given(st.integers(0, MARGIN), st.integers(0, MARGIN // 9))
def test_a_reading_that_trembles_does_not_make_the_engine_tremble(
    middle: int, amplitude: int
) -> None:
    """Whatever it trembles around: a level entered is not left by less than an eighth."""
    spares = [middle + (amplitude if n % 2 else -amplitude) for n in range(300)]
    levels = [outlook.level for outlook in after(spares)]
    assert sum(a != b for a, b in pairwise(levels)) <= 1


def test_each_level_gives_up_what_the_one_before_it_does_and_more() -> None:
    calm, tight, scarce, critical = (restraint(level, slots=4) for level in Level)
    assert (calm.keeps, calm.slots) == (True, None)
    assert (tight.keeps, tight.slots) == (False, None)
    assert (scarce.keeps, scarce.slots) == (False, 2)
    assert critical == scarce


def test_one_request_always_runs() -> None:
    assert restraint(Level.CRITICAL, slots=1).slots == 1
