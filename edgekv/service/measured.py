"""What was measured of a machine with a model, and what follows from it. Pure arithmetic."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

ALMOST = 0.9
"""Of the best: what is not worth the memory and the waiting that more slots cost."""
SHORTEST = 8
"""Tokens of an answer that are measured even where each takes seconds."""

Progress: TypeAlias = Sequence[tuple[float, int]]
"""An answer as it came: when, and how many tokens of it were there. Both only grow."""


class Reading(msgspec.Struct, frozen=True):
    tokens: int
    tokens_per_second: float


class Writing(msgspec.Struct, frozen=True):
    at_once: int
    tokens_per_second: float
    """Of all answers together, while every one of them is being written."""


class Reuse(msgspec.Struct, frozen=True):
    """A prompt whose beginning was read before."""

    tokens: int
    reused_tokens: int
    first_seconds: float
    """To the first token, when nothing of the prompt was known."""
    again_seconds: float


class Speed(msgspec.Struct, frozen=True):
    """In tokens a second."""

    reading: float
    writing: float
    num_read: int
    num_written: int


class Measured(msgspec.Struct, frozen=True):
    reading: Reading
    reuse: Reuse
    writing: tuple[Writing, ...]
    """By `at_once`, which grows."""


def counts(slots: int) -> tuple[int, ...]:
    """How many answers at once to measure: 1, 2, 4, … and all the slots."""
    return (*(2**power for power in range((slots - 1).bit_length())), slots)


def together(answers: Sequence[Progress]) -> float | None:
    """Tokens a second of all answers from the moment when the last one has begun to the moment
    when the first one ends; None if there is no time between.
    """
    begin = max(answer[0][0] for answer in answers)
    end = min(answer[-1][0] for answer in answers)
    if end <= begin:
        return None
    return sum(_there(answer, end) - _there(answer, begin) for answer in answers) / (end - begin)


def _there(answer: Progress, moment: float) -> int:
    index = bisect_right(answer, moment, key=lambda one: one[0])
    return answer[index - 1][1] if index else 0


def num_tokens_within(seconds: float, tokens_per_second: float, most: int) -> int:
    """Tokens that take about so long, `SHORTEST` at least."""
    return max(SHORTEST, min(most, int(seconds * tokens_per_second)))


def ceiling(bytes_per_second: float, active_bytes: int, at_once: int) -> float:
    """The most tokens a second that so many answers can have together: all weights that a token
    needs go through the processor once a step, and a step gives each answer one token.
    """
    return at_once * bytes_per_second / active_bytes


def advice(writing: Sequence[Writing]) -> str:
    """One sentence: how many answers at once are worth while here."""
    best = max(row.tokens_per_second for row in writing)
    enough = next(row for row in writing if row.tokens_per_second >= ALMOST * best)
    speed = f"{enough.tokens_per_second:,.1f} tokens a second"
    if len(writing) == 1:
        return f"One answer has {speed}; only one slot was measured, so try more --slots."
    if enough is writing[-1]:
        return (
            f"{enough.at_once} answers at once write most, {speed} together; "
            f"--slots {2 * enough.at_once} may gain more, if memory has room for it."
        )
    more = max(row.tokens_per_second for row in writing if row.at_once > enough.at_once)
    if enough.at_once == 1:
        return f"More slots gain nothing here: one answer has {speed}, several share {more:,.1f}."
    return (
        f"More than {enough.at_once} slots gain little here: {enough.at_once} answers at once "
        f"write {speed} together, and more of them {more:,.1f} at most."
    )
