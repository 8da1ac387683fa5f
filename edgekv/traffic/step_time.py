"""How long a step takes, from steps that were measured: the clock of a simulation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

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
    rows = [[count / seconds for count in astuple(work)] for work, seconds in measured]
    chosen = [column for column in range(len(rows[0])) if any(row[column] for row in rows)]
    while True:
        prices = _least_squares([[row[column] for column in chosen] for row in rows])
        cheapest = min(range(len(chosen)), key=lambda i: prices[i] * _weight(rows, chosen[i]))
        if prices[cheapest] >= 0:
            break
        del chosen[cheapest]
    found = dict(zip(chosen, prices, strict=True))
    return StepTime(*(found.get(column, 0.0) for column in range(len(rows[0]))))


def _weight(rows: Sequence[Sequence[float]], column: int) -> float:
    """How much a price of 1 would change the result: prices of unlike things become comparable."""
    return float(sum(row[column] ** 2 for row in rows) ** 0.5)


ALMOST_NOTHING = 1e-9
"""Of a diagonal: columns that say the same share what they explain."""


def _least_squares(rows: Sequence[Sequence[float]]) -> list[float]:
    """The factors by which the columns add up to 1 in every row, as nearly as can be."""
    size = len(rows[0])
    scale = [_weight(rows, i) for i in range(size)]
    scaled = [[row[i] / scale[i] for i in range(size)] for row in rows]
    table = [
        [sum(row[i] * row[j] for row in scaled) for j in range(size)]
        + [sum(row[i] for row in scaled)]
        for i in range(size)
    ]
    for i in range(size):
        table[i][i] += ALMOST_NOTHING
    return [value / scale[i] for i, value in enumerate(_solved(table))]


def _solved(table: list[list[float]]) -> list[float]:
    """Gauss and Jordan, for a matrix that is symmetric and positive, beside its right side."""
    for i, pivot in enumerate(table):
        for k, row in enumerate(table):
            if k != i:
                factor = row[i] / pivot[i]
                table[k] = [a - factor * b for a, b in zip(row, pivot, strict=True)]
    return [row[-1] / row[i] for i, row in enumerate(table)]
