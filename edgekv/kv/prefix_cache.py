"""Who holds which KV cells: running sequences, and finished ones kept for reuse.

    unused ──── acquire ────▶ running ──── retire ────▶ kept
      ▲                        │   ▲                     │ │
      └──────── evict ─────────┘   └── acquire (cut) ────┘ │
      └──────── evict ─────────────────────────────────────┘

Always true, and checked by `check_integrity`:
- the tree's token count is the number of cells in use. When two sequences computed the same
  tokens, the later one lets go of its cells and shares the earlier one's;
- what is reserved for running sequences is free. So they never run out of cells.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgekv.core.ports import KVMemory
from edgekv.core.request import SeqId, Token
from edgekv.kv.cell_cache import Acquired, CellCounts
from edgekv.kv.radix_tree import Match, Prefix, RadixTree


class PrefixCache:
    """A `CellCache` that shares every known prefix, to the token."""

    def __init__(self, memory: KVMemory, *, num_cells: int, num_seqs: int) -> None:
        self._memory = memory
        self._num_cells, self._num_seqs = num_cells, num_seqs
        self._tree = RadixTree()
        self._prompts = RadixTree()
        """Whole prompts of running sequences, so that a match tells what will be computed."""
        self._unused = [SeqId(i) for i in reversed(range(num_seqs))]
        self._kept: dict[SeqId, None] = {}
        """A set in the order of eviction: oldest first."""
        self._reserved: dict[SeqId, int] = {}

    def counts(self) -> CellCounts:
        tree = self._tree
        reserved = sum(self._reserved.values())
        return CellCounts(tree.num_cells, tree.num_shared, tree.num_kept, reserved)

    def tokens(self, seq_id: SeqId) -> list[Token]:
        """What a running or kept sequence sees."""
        return self._tree.tokens(seq_id)

    def running(self) -> list[SeqId]:
        return sorted(self._reserved)

    def kept(self) -> list[SeqId]:
        """Finished sequences that still hold cells, the next to be evicted first."""
        return list(self._kept)

    def length(self, seq_id: SeqId) -> int:
        return self._tree.length(seq_id)

    def promised(self, prompt: Sequence[Token]) -> Prefix | None:
        wanted = prompt[:-1]
        promise = self._prompts.match(wanted)
        if promise.length <= self._tree.match(wanted).length:
            return None
        return Prefix(min(promise.holders), promise.length)

    def acquire(self, prompt: Sequence[Token], worst_case: int) -> Acquired | None:
        # The last prompt token is always computed, to have logits to sample from.
        match = self._tree.match(prompt[:-1])
        needed = worst_case - match.length
        evictable = self._tree.num_kept - match.num_kept
        if needed > self._room + evictable or not (self._unused or self._kept):
            return None
        seq_id = self._claim(match, needed, prompt)
        self._reserved[seq_id] = needed
        self._prompts.acquire(seq_id)
        self._prompts.advance(seq_id, prompt)
        return Acquired(seq_id, match.length)

    def advance(self, seq_id: SeqId, tokens: Sequence[Token]) -> None:
        start = self._tree.length(seq_id)
        twin = self._tree.advance(seq_id, tokens)
        if twin is not None:
            # Another sequence computed the same tokens first: use its cells.
            self._memory.cut(seq_id, start, twin.length)
            self._memory.share(twin.holder, seq_id, start, twin.length)
        self._reserved[seq_id] -= len(tokens)

    def retire(self, seq_id: SeqId) -> None:
        others = self._tree.others(seq_id)
        length = self._tree.length(seq_id)
        if others or not length:
            # Keeping it would cost an id and save nothing; the others count as used just now.
            self.evict(seq_id, length)
            for other in others & self._kept.keys():
                self._keep(other)
            return
        self._stop_running(seq_id)
        self._tree.keep(seq_id)
        self._keep(seq_id)

    def evict(self, seq_id: SeqId, end: int) -> None:
        self._stop_running(seq_id)
        self._release(seq_id, end)

    def check_integrity(self) -> None:
        self._tree.check_integrity()
        self._prompts.check_integrity()
        ids = [*self._unused, *self._kept, *self._reserved]
        assert sorted(ids) == list(range(self._num_seqs)), "every id is in exactly one place"
        assert all(needed >= 0 for needed in self._reserved.values())
        assert self._room >= 0, "reserved cells must be free"

    @property
    def _room(self) -> int:
        """Cells that are neither used nor reserved."""
        return self._num_cells - self._tree.num_cells - sum(self._reserved.values())

    def _claim(self, match: Match, needed: int, prompt: Sequence[Token]) -> SeqId:
        """An id that holds the match, with room for `needed` more cells.

        Kept sequences are evicted oldest first. When it is the turn of the donor, or when the
        match is all that the donor has, the donor is cut to the match and runs again instead.
        """
        donor = min(match.holders, default=None)
        taken: SeqId | None = None
        if donor in self._kept and self._tree.length(donor) == match.length:
            taken = self._take_over(donor, match.length)
        while self._room < needed or (taken is None and not self._unused):
            oldest = next(iter(self._kept))
            if oldest == donor:
                taken = self._take_over(oldest, match.length)
            else:
                del self._kept[oldest]
                self._release(oldest, self._tree.length(oldest))
        if taken is not None:
            return taken
        seq_id = self._unused.pop()
        self._tree.acquire(seq_id)
        if donor is not None:
            self._tree.advance(seq_id, prompt[: match.length])
            self._memory.share(donor, seq_id, 0, match.length)
        return seq_id

    def _take_over(self, seq_id: SeqId, length: int) -> SeqId:
        """Let a kept sequence run again with its first `length` tokens."""
        del self._kept[seq_id]
        if length < self._tree.length(seq_id):
            self._memory.cut(seq_id, length, self._tree.length(seq_id))
            self._tree.cut(seq_id, length)
        self._tree.acquire(seq_id)
        return seq_id

    def _keep(self, seq_id: SeqId) -> None:
        self._kept.pop(seq_id, None)
        self._kept[seq_id] = None

    def _stop_running(self, seq_id: SeqId) -> None:
        del self._reserved[seq_id]
        self._prompts.evict(seq_id)

    def _release(self, seq_id: SeqId, end: int) -> None:
        """Give back an id and its cells up to position `end`."""
        if end:
            self._memory.cut(seq_id, 0, end)
        self._tree.evict(seq_id)
        self._unused.append(seq_id)
