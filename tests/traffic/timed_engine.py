"""The strict fake on a clock that its decodes move on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from edgekv.core.batch import BatchPlan, DecodeStatus
from edgekv.core.plan import Allocation, Choice, Opening
from edgekv.core.request import SamplingParams, Segment, SeqId, Token
from edgekv.traffic.step_time import Piece, StepTime, work_of
from tests.cell_backend import CellBackend
from tests.fakes import FakeLibrary

LAST, FIRST_OTHER = Token(1_000_000), 1_000_001
KEY_BYTES = 8


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class TimedBackend(CellBackend):
    """The strict context; its decodes take time, and a saved cell is one byte."""

    def __init__(self, choice: Choice, clock: Clock, step_time: StepTime) -> None:
        others = count(FIRST_OTHER)

        def choose(seen: Sequence[Token], num_prompt: int, sampling: SamplingParams) -> Token:
            # The seed says how long the answer is to get.
            is_last = len(seen) - num_prompt + 1 == sampling.seed
            return LAST if is_last else Token(next(others))

        super().__init__(choice.cells, choice.num_seqs, choose=choose, batch_tokens=choice.batch)
        self._clock, self._step_time = clock, step_time
        self._saved: list[bytes] = []

    def decode(self, plan: BatchPlan) -> DecodeStatus:
        pieces = [Piece(piece.start, len(piece.tokens)) for piece in plan.slices]
        status = super().decode(plan)
        self._clock.now += self._step_time.seconds(work_of(pieces, len(self.cells())))
        return status

    def save(self, seq_id: SeqId, start: int, end: int) -> bytes:
        self._saved.append(super().save(seq_id, start, end))
        key = (len(self._saved) - 1).to_bytes(KEY_BYTES, "big")
        return key + bytes(end - start - KEY_BYTES)

    def load(self, blob: bytes, seq_id: SeqId, start: int, end: int) -> bool:
        return super().load(
            self._saved[int.from_bytes(blob[:KEY_BYTES], "big")], seq_id, start, end
        )


class Words:
    """A vocabulary whose every token is a letter; `LAST` is the only z."""

    num_tokens = 1 << 40
    end_tokens: frozenset[Token] = frozenset()

    def tokenize(self, segments: Sequence[Segment]) -> list[Token]:
        raise AssertionError("prompts are tokens here")

    def piece(self, token: Token) -> bytes:
        return b"z" if token == LAST else b"a"

    spelling = piece


class TimedLibrary(FakeLibrary):
    def __init__(self, clock: Clock, step_time: StepTime) -> None:
        super().__init__()
        self._clock, self._step_time = clock, step_time

    def open(  # type: ignore[override]
        self, opening: Opening, on_progress: Callable[[float], None]
    ) -> tuple[CellBackend, Words, Allocation]:
        backend = TimedBackend(opening.choice, self._clock, self._step_time)
        return backend, Words(), self.dry_run(opening)
