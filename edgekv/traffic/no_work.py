"""A library that takes no time: what is left is EdgeKV's own work, and its decisions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from edgekv.core.batch import BatchPlan, DecodeStatus
from edgekv.core.plan import Allocation, Choice
from edgekv.core.request import Grammar, SamplingParams, SeqId, Token

LOWEST_TOKEN = -(1 << 62)
"""Below all that prompts are made of (`traffic.trace`)."""


class NoWork:
    """A `core.ports.Backend` that computes nothing. A saved cell is one byte."""

    state_key = "none"

    def __init__(self, num_cells: int, num_seqs: int) -> None:
        self.num_cells, self.num_seqs = num_cells, num_seqs
        self.last_step = BatchPlan(())
        """What was decoded last."""
        self._answers = count(LOWEST_TOKEN)

    def share(self, source: SeqId, target: SeqId, start: int, end: int) -> None: ...

    def cut(self, seq_id: SeqId, start: int, end: int) -> None: ...

    def save(self, seq_id: SeqId, start: int, end: int) -> bytes:
        return bytes(end - start)

    def load(self, blob: bytes, seq_id: SeqId, start: int, end: int) -> bool:
        return True

    def decode(self, plan: BatchPlan) -> DecodeStatus:
        self.last_step = plan
        return DecodeStatus.DONE

    def attach(
        self,
        seq_id: SeqId,
        sampling: SamplingParams,
        prompt: Sequence[Token],
        generated: Sequence[Token] = (),
    ) -> None: ...

    def detach(self, seq_id: SeqId) -> None: ...

    def sample(self, seq_id: SeqId) -> Token:
        # No two are alike, so that no answer seems to say what another one says.
        return Token(next(self._answers))

    def is_complete(self, seq_id: SeqId) -> bool:
        return False

    def logprob(self, seq_id: SeqId) -> None: ...

    def compile(self, grammar: Grammar) -> None: ...

    def compiled(self, grammar: Grammar) -> None: ...

    def embed(self, tokens: Sequence[Token]) -> tuple[float, ...]:
        raise NotImplementedError("no trace has embeddings")

    def resize(self, choice: Choice) -> Allocation:
        raise NotImplementedError("a simulated pool keeps its size")

    def close(self) -> None: ...
