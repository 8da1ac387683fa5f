"""Every sequence computes its own cells and gives them back when it ends."""

from __future__ import annotations

from collections.abc import Sequence

from edgekv.core.ports import KVMemory
from edgekv.core.request import SeqId, Token
from edgekv.kv.cell_cache import Acquired, CellCounts
from edgekv.kv.radix_tree import Prefix


class UnsharedCache:
    """A `CellCache` for models whose cells cannot be shared or cut in part: recurrent state has
    no past to go back to, a bounded window has dropped it. Also the baseline for measurements.
    """

    def __init__(self, memory: KVMemory, *, num_cells: int, num_seqs: int) -> None:
        self._memory = memory
        self._num_cells, self._num_seqs = num_cells, num_seqs
        self._unused = [SeqId(i) for i in reversed(range(num_seqs))]
        self._used: dict[SeqId, int] = {}
        self._reserved: dict[SeqId, int] = {}

    def running(self) -> list[SeqId]:
        return sorted(self._used)

    def length(self, seq_id: SeqId) -> int:
        return self._used[seq_id]

    def counts(self) -> CellCounts:
        used, reserved = sum(self._used.values()), sum(self._reserved.values())
        return CellCounts(used, shared=0, kept=0, reserved=reserved)

    def promised(self, prompt: Sequence[Token]) -> Prefix | None:
        return None

    def acquire(self, prompt: Sequence[Token], worst_case: int) -> Acquired | None:
        counts = self.counts()
        if not self._unused or counts.used + counts.reserved + worst_case > self._num_cells:
            return None
        seq_id = self._unused.pop()
        self._used[seq_id], self._reserved[seq_id] = 0, worst_case
        return Acquired(seq_id, 0)

    def advance(self, seq_id: SeqId, tokens: Sequence[Token]) -> None:
        self._used[seq_id] += len(tokens)
        self._reserved[seq_id] -= len(tokens)

    def retire(self, seq_id: SeqId) -> None:
        self.evict(seq_id, self._used[seq_id])

    def evict(self, seq_id: SeqId, end: int) -> None:
        del self._used[seq_id], self._reserved[seq_id]
        if end:
            self._memory.cut(seq_id, 0, end)
        self._unused.append(seq_id)

    def check_integrity(self) -> None:
        counts = self.counts()
        assert counts.used + counts.reserved <= self._num_cells, "reserved cells must be free"
        assert all(needed >= 0 for needed in self._reserved.values())
        assert self._used.keys() == self._reserved.keys()
        assert sorted([*self._unused, *self._used]) == list(range(self._num_seqs))
