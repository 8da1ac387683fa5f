"""How long a step takes, from steps that were measured: the clock of a simulation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

import numpy as np

FEW_TOKENS = 64
"""ggml computes the attention of a step with fewer tokens row by row, of one with more in tiles
(GGML_FA_TILE_Q), and deep in a conversation that is another price."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What a step computes of one sequence: `num_tokens` behind the `start` that are there."""

    start: int
    num_tokens: int

    @property
    def attended(self) -> int:
        """Cells of its own that its tokens look at, each at all before it and at itself."""
        return self.num_tokens * self.start + self.num_tokens * (self.num_tokens + 1) // 2


@dataclass(frozen=True, slots=True)
class Work:
    """What a step has to do, or several: all of it only adds up."""

    steps: int
    prompt_tokens: int
    answers: int
    """Tokens that go on with an answer."""
    attended_by_few: int
    """Cells that tokens look at, in steps of fewer than `FEW_TOKENS`."""
    attended_by_many: int
    cells: int
    """In use, whoever holds them: without flash attention a step reads them all."""
    passed: int
    """The same once for each token: without flash attention it is compared with all of them."""

    def __add__(self, other: Work) -> Work:
        return Work(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


NO_WORK = Work(0, 0, 0, 0, 0, 0, 0)


def work_of(pieces: Iterable[Piece], cells_used: int) -> Work:
    """Of one step; `cells_used` counts those that it fills, too."""
    pieces = tuple(pieces)
    num_answers = sum(piece.num_tokens == 1 for piece in pieces)
    num_tokens = sum(piece.num_tokens for piece in pieces)
    attended = sum(piece.attended for piece in pieces)
    few = num_tokens < FEW_TOKENS
    return Work(
        steps=1,
        prompt_tokens=num_tokens - num_answers,
        answers=num_answers,
        attended_by_few=attended if few else 0,
        attended_by_many=0 if few else attended,
        cells=cells_used,
        passed=num_tokens * cells_used,
    )


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds for one of each that `Work` counts."""

    step: float
    """For a step at all: every weight is read once."""
    prompt_token: float
    answer: float
    attended_by_few: float = 0.0
    attended_by_many: float = 0.0
    cells: float = 0.0
    passed: float = 0.0

    def seconds(self, work: Work) -> float:
        return (
            self.step * work.steps
            + self.prompt_token * work.prompt_tokens
            + self.answer * work.answers
            + self.attended_by_few * work.attended_by_few
            + self.attended_by_many * work.attended_by_many
            + self.cells * work.cells
            + self.passed * work.passed
        )

    def times(self, factor: float) -> StepTime:
        """Of a machine that takes so many times as long."""
        return StepTime(*(factor * seconds for seconds in astuple(self)))


def fitted(measured: Sequence[tuple[Work, float]]) -> StepTime:
    """The prices that come nearest to what was measured, each error as a part of its seconds.

    Least squares. What would cost less than nothing, or was never measured, costs nothing.
    Raises `ValueError` for times that are not positive.
    """
    if not measured or any(seconds <= 0 for _, seconds in measured):
        raise ValueError("times are positive, and there is one at least")
    rows = np.array([astuple(work) for work, _ in measured]) / [[s] for _, s in measured]
    # Columns of length 1 make prices of unlike things comparable.
    lengths = np.linalg.norm(rows, axis=0)
    chosen = np.flatnonzero(lengths)
    while True:
        scaled = rows[:, chosen] / lengths[chosen]
        weights = np.linalg.lstsq(scaled, np.ones(len(rows)), rcond=None)[0]
        if weights.min() >= 0:
            break
        chosen = np.delete(chosen, weights.argmin())
    prices = np.zeros(len(lengths))
    prices[chosen] = weights / lengths[chosen]
    return StepTime(*prices.tolist())
