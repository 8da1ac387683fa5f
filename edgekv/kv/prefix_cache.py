"""Who holds which KV cells: running sequences, and finished ones kept for reuse.

    unused ──── acquire ────▶ running ──── retire ────▶ kept
      ▲                        │   ▲                     │ │
      ├── suspend, evict ──────┘   └── acquire (cut) ────┘ │
      └──────── evict ─────────────────────────────────────┘

What a suspended or evicted sequence alone held goes to the store first, and `acquire` brings
back what it finds there. Always true, and checked by `check_integrity`: the tree's token count is
the number of cells in use. When two sequences computed the same tokens, the later one lets go of
its cells and shares the earlier one's.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgekv.core.inspection import CacheView, HeldRun, Miss
from edgekv.core.ports import KVMemory
from edgekv.core.request import SeqId, Token
from edgekv.kv.cell_cache import Acquired, CellCounts, StoreCounts
from edgekv.kv.claims import Claim, Rank
from edgekv.kv.differences import difference
from edgekv.kv.kept import Kept, Pin
from edgekv.kv.pool import Pool, unused_ids
from edgekv.kv.radix_tree import Match, Prefix, RadixTree
from edgekv.kv.reservations import Reservations
from edgekv.kv.store import Store
from edgekv.kv.swap import Swap

NOTE = "Any part of a prompt that another conversation begins with is used again, to the token."
NO_COPY = "its cells were needed and the store had no room for a copy"


class PrefixCache:
    """A `CellCache` that shares every known prefix, to the token."""

    def __init__(
        self, memory: KVMemory, *, num_cells: int, num_seqs: int, store: Store | None = None
    ) -> None:
        self._num_cells, self._num_seqs = num_cells, num_seqs
        self._swap = Swap(memory, store or Store())
        self._pool = Pool(memory, num_seqs)
        self._tree = self._pool.tree
        self._prompts = RadixTree()
        """Whole prompts of running sequences, so that a match tells what will be computed."""
        self._kept = Kept()
        self._may_keep = True
        self._reserved = Reservations()

    def counts(self) -> CellCounts:
        tree, reserved = self._tree, min(self._reserved.total, self._free)
        return CellCounts(tree.num_cells, tree.num_shared, tree.num_kept, reserved)

    def held(self) -> tuple[HeldRun, ...]:
        return tuple(
            HeldRun(start, len(node.tokens), tuple(sorted(node.running)), tuple(sorted(node.kept)))
            for start, node in self._tree.runs()
        )

    def view(self) -> CacheView:
        store, pinned = self._swap.store, self._kept.pinned_runs(self._tree)
        return CacheView(self.held(), store.runs(), NOTE, pinned)

    def pin(self, name: str, tokens: Sequence[Token]) -> None:
        self._kept.pin(name, tokens, self._num_cells)
        self._swap.store.claim(tokens, Rank.PINNED)

    def store_counts(self) -> StoreCounts:
        return self._swap.counts()

    def tokens(self, seq_id: SeqId) -> list[Token]:
        """What a running or kept sequence sees."""
        return self._tree.tokens(seq_id)

    def running(self) -> list[SeqId]:
        return self._reserved.seq_ids()

    def kept(self) -> list[SeqId]:
        """Finished sequences that still hold cells, the next to be evicted first."""
        return list(self._kept)

    def length(self, seq_id: SeqId) -> int:
        return self._tree.length(seq_id)

    def promised(self, tokens: Sequence[Token]) -> Prefix | None:
        wanted = tokens[:-1]
        promise = self._prompts.match(wanted)
        known = self._tree.match(wanted).length
        if promise.length <= known or promise.length <= self._swap.store.reach(wanted, known):
            return None
        return Prefix(min(promise.holders), promise.length)

    def acquire(self, tokens: Sequence[Token], expected: int) -> Acquired | None:
        # The last token is always computed, to have logits to sample from.
        wanted = tokens[:-1]
        match = self._tree.match(wanted)
        if self._lacks(match, expected) > 0 or not (self._pool.unused or self._kept):
            return None
        different = difference(wanted, self._tree, match, self._swap.store.nearest(wanted))
        seq_id = self._claim(match, expected - match.length, tokens)
        self._reserved.set(seq_id, expected - match.length)
        self._prompts.acquire(seq_id)
        self._prompts.advance(seq_id, tokens)
        self._clear()
        num_restored = self._restore(seq_id, wanted)
        known = match.length + num_restored
        miss = Miss(different, self._swap.store.lost.find(wanted, known))
        return Acquired(seq_id, match.length, num_restored, miss if known < len(wanted) else None)

    def shortage(self, tokens: Sequence[Token], expected: int) -> int:
        return self._lacks(self._tree.match(tokens[:-1]), expected)

    def freed_by(self, seq_id: SeqId) -> int:
        private = self._tree.length(seq_id) - self._tree.private_start(seq_id)
        return private + self._reserved.of(seq_id)

    def checkpoints(self, seq_id: SeqId, branches: Sequence[int]) -> tuple[int, ...]:
        return ()

    def expect(self, seq_id: SeqId, num_cells: int) -> None:
        self._reserved.set(seq_id, num_cells)

    def expected(self, seq_id: SeqId) -> int:
        return self._reserved.of(seq_id)

    def advance(self, seq_id: SeqId, tokens: Sequence[Token]) -> None:
        self._pool.advance(seq_id, tokens)
        self._reserved.use(seq_id, len(tokens))

    def retire(self, seq_id: SeqId) -> None:
        others = self._tree.others(seq_id)
        length = self._tree.length(seq_id)
        self._stop_running(seq_id)
        if others or not length:
            # Keeping it would cost an id and save nothing; the others count as used just now.
            self._pool.release(seq_id, length)
            for other in others.intersection(self._kept):
                self._kept.use(other)
        else:
            self._tree.keep(seq_id)
            self._kept.use(seq_id)
        for pin in self._kept.unheld():
            self._hold(pin)
        if self.running():
            self._clear()
        while self._kept and not self._may_keep:
            self._evict_next()

    def suspend(self, seq_id: SeqId) -> Claim:
        claim = self._swap.store.claim(self._tree.tokens(seq_id), Rank.SUSPENDED)
        self._stop_running(seq_id)
        self._leave(seq_id)
        return claim

    def release(self, claim: Claim) -> None:
        self._swap.store.release(claim)

    def evict(self, seq_id: SeqId, end: int) -> None:
        self._stop_running(seq_id)
        self._pool.release(seq_id, end)

    def room(self) -> int:
        return self._free + self._tree.num_kept

    def make_room(self, num_cells: int) -> None:
        while self._free < num_cells:
            self._evict_next()

    def restrain(self, *, keeps: bool, host_bytes: int) -> None:
        self._may_keep = keeps
        self._swap.store.limit_host(host_bytes)
        while self._kept and not keeps:
            self._evict_next()

    def resize(self, num_cells: int, num_seqs: int) -> None:
        assert not self.running()
        while self._kept:
            self._evict_next()
        self._num_cells, self._num_seqs = num_cells, num_seqs
        self._pool.unused = unused_ids(num_seqs)

    def rest(self) -> bool:
        """Copy kept sequences to the store, so that they outlive the process."""
        return self._copy_piece() or self._swap.store.rest()

    def check_integrity(self) -> None:
        for books in (self._tree, self._prompts, self._reserved, self._swap.store, self._kept):
            books.check_integrity()
        ids = [*self._pool.unused, *self._kept, *self._reserved.seq_ids()]
        assert sorted(ids) == list(range(self._num_seqs)), "every id is in exactly one place"
        assert self._free >= 0

    @property
    def _free(self) -> int:
        return self._num_cells - self._tree.num_cells

    @property
    def _unreserved(self) -> int:
        """Free cells that no running sequence is expected to need; below 0 if there are too few."""
        return self._free - self._reserved.total

    def _lacks(self, match: Match, expected: int) -> int:
        """So many of the cells behind a match are not to be had, by evicting neither."""
        return expected - match.length - self._unreserved - (self._tree.num_kept - match.num_kept)

    def _claim(self, match: Match, needed: int, tokens: Sequence[Token]) -> SeqId:
        """An id that holds the match, with room for `needed` more cells.

        Kept sequences are evicted in their order. When it is the turn of the donor, or when the
        match is all that the donor has, the donor is cut to the match and runs again instead.
        """
        donor = min(match.holders, default=None)
        taken: SeqId | None = None
        if donor in self._kept.loose and self._tree.length(donor) == match.length:
            taken = self._take_over(donor, match.length)
        while self._unreserved < needed or (taken is None and not self._pool.unused):
            if self._kept.next == donor:
                taken = self._take_over(donor, match.length)
            else:
                self._evict_next()
        return self._pool.branch(donor, tokens[: match.length]) if taken is None else taken

    def _take_over(self, seq_id: SeqId, length: int) -> SeqId:
        """Let a kept sequence run again with its first `length` tokens."""
        self._kept.give_up(seq_id)
        if length < self._tree.length(seq_id):
            self._save(seq_id, length)
            self._pool.cut(seq_id, length)
        self._tree.acquire(seq_id)
        return seq_id

    def _restore(self, seq_id: SeqId, wanted: Sequence[Token]) -> int:
        """Give an id what the store has beyond its match; returns how many tokens that is."""
        start = self._tree.length(seq_id)
        end = self._swap.load(seq_id, wanted, start, self._free)
        if end > start:
            twin = self._tree.advance(seq_id, wanted[start:end])
            assert twin is None, "the match was the longest that the pool has"
            self._reserved.use(seq_id, end - start)
        return end - start

    def _save(self, seq_id: SeqId, start: int) -> None:
        """Copy what only `seq_id` holds, from `start` on, to the store."""
        start = max(start, self._tree.private_start(seq_id))
        self._swap.save(seq_id, self._tree.tokens(seq_id), start)

    def _hold(self, pin: Pin) -> None:
        """Give a pin an id of its own, if its cells are there and an id can be had."""
        match = self._tree.match(pin.tokens)
        if match.length < len(pin.tokens):
            return
        exact = [s for s in self._kept.loose if self._tree.tokens(s) == list(pin.tokens)]
        others = [s for s in self._kept.loose if s not in match.holders]
        if not (exact or self._pool.unused) and others:
            self._evict(others[0])
        if exact:
            self._kept.hold(pin, exact[0])
        elif self._pool.unused:
            seq_id = self._pool.branch(min(match.holders), pin.tokens)
            self._tree.keep(seq_id)
            self._kept.hold(pin, seq_id)

    def _clear(self) -> None:
        """Let go of what is kept and has a whole copy, for it would slow what runs."""
        self._copy_piece()
        for seq_id in self._kept.loose:
            tokens = self._tree.tokens(seq_id)
            if self._swap.store.reach(tokens, 0) == len(tokens):
                self._evict(seq_id)

    def _copy_piece(self) -> bool:
        """Copy one piece of what is kept, which is soon done; False if all have their copies."""
        if self._kept.unsaved is None:
            return False
        seq_id, start = self._kept.unsaved
        # What has its cells here takes no other's place, unless for the next process.
        may_drop = self._swap.store.outlives_process
        tokens = self._tree.tokens(seq_id)
        self._kept.save(seq_id, self._swap.save_piece(seq_id, tokens, start, may_drop=may_drop))
        return True

    def _evict_next(self) -> None:
        self._evict(self._kept.next)

    def _evict(self, seq_id: SeqId) -> None:
        self._kept.give_up(seq_id)
        self._leave(seq_id)

    def _stop_running(self, seq_id: SeqId) -> None:
        self._reserved.drop(seq_id)
        self._prompts.evict(seq_id)

    def _leave(self, seq_id: SeqId) -> None:
        """Give back an id and its cells, with a copy of them in the store."""
        self._save(seq_id, 0)
        tokens = self._tree.tokens(seq_id)
        self._pool.release(seq_id, len(tokens))
        if self._swap.store.reach(tokens, self._tree.match(tokens).length) < len(tokens):
            self._swap.store.lost.note(tokens, NO_COPY)
