"""Every sequence has cells of its own and gives them back when it ends."""

from __future__ import annotations

from collections.abc import Sequence

from edgekv.core.inspection import CacheView, HeldRun
from edgekv.core.ports import KVMemory
from edgekv.core.request import SeqId, Token
from edgekv.errors import Unavailable
from edgekv.kv.cell_cache import Acquired, CellCounts, StoreCounts
from edgekv.kv.claims import Claim, Rank
from edgekv.kv.pool import unused_ids
from edgekv.kv.radix_tree import Prefix, shared_length
from edgekv.kv.reservations import Reservations
from edgekv.kv.store import Store
from edgekv.kv.swap import Swap

NOTE = (
    "This model keeps a state or a window that cannot go back to an earlier token. Copies are made "
    "where turns begin and end and where two prompts part: a prompt goes on from the last of these "
    "that it has in common with an earlier one."
)
NO_COPIES = (
    "Nothing of a prompt is used again: this model keeps a state or a window that cannot go back "
    "to an earlier token, and there is no room for copies of it; start with a --host-cache or a "
    "--disk-cache."
)
FEWEST_BEFORE_CHECKPOINT = 32
"""A copy of a whole state is worth its memory if it saves so many tokens."""


class UnsharedCache:
    """A `CellCache` for models whose cells cannot be shared or cut in part: recurrent state has
    no past to go back to, a bounded window has dropped it. Whole states do go to the store and
    back, so an answer can be suspended and a conversation goes on from its last turn. A state is
    copied as well where a prompt will probably part from others, and where it is seen to.
    Without a store every prompt is computed anew: the baseline for measurements.
    """

    def __init__(
        self, memory: KVMemory, *, num_cells: int, num_seqs: int, store: Store | None = None
    ) -> None:
        self._memory = memory
        self._num_cells, self._num_seqs = num_cells, num_seqs
        self._swap = Swap(memory, store or Store())
        self._unused = unused_ids(num_seqs)
        self._tokens: dict[SeqId, list[Token]] = {}
        self._prompts: dict[SeqId, Sequence[Token]] = {}
        self._reserved = Reservations()
        self._checkpoints: dict[SeqId, set[int]] = {}

    def running(self) -> list[SeqId]:
        return self._reserved.seq_ids()

    def length(self, seq_id: SeqId) -> int:
        return len(self._tokens[seq_id])

    def counts(self) -> CellCounts:
        used = sum(map(len, self._tokens.values()))
        reserved = min(self._reserved.total, self._num_cells - used)
        return CellCounts(used, shared=0, kept=0, reserved=reserved)

    def held(self) -> tuple[HeldRun, ...]:
        return tuple(HeldRun(0, len(t), (s,), ()) for s, t in self._tokens.items())

    def view(self) -> CacheView:
        store = self._swap.store
        return CacheView(self.held(), store.runs(), NOTE if store.is_on else NO_COPIES)

    def store_counts(self) -> StoreCounts:
        return self._swap.counts()

    def promised(self, tokens: Sequence[Token]) -> Prefix | None:
        wanted = list(tokens[:-1])
        stored = self._swap.store.find_whole(wanted)
        known = stored.end if stored else 0
        promises = [
            Prefix(seq_id, at)
            for seq_id, positions in self._checkpoints.items()
            for at in positions
            if at > self.length(seq_id)
            and at - known >= FEWEST_BEFORE_CHECKPOINT
            and wanted[:at] == list(self._prompts[seq_id][:at])
        ]
        return max(promises, key=lambda promise: promise.length, default=None)

    def acquire(self, tokens: Sequence[Token], expected: int) -> Acquired | None:
        if not self._unused or self.shortage(tokens, expected) > 0:
            return None
        seq_id = self._unused.pop()
        wanted = tokens[:-1]
        num_restored = self._swap.load_whole(seq_id, wanted)
        self._tokens[seq_id], self._prompts[seq_id] = list(tokens[:num_restored]), tokens
        self._reserved.set(seq_id, expected - num_restored)
        self._checkpoints[seq_id] = set()
        return Acquired(seq_id, 0, num_restored)

    def shortage(self, tokens: Sequence[Token], expected: int) -> int:
        return expected - (self.room() - self._reserved.total)

    def freed_by(self, seq_id: SeqId) -> int:
        return self.length(seq_id) + self._reserved.of(seq_id)

    def checkpoints(self, seq_id: SeqId, branches: Sequence[int]) -> tuple[int, ...]:
        store, prompt = self._swap.store, self._prompts[seq_id][:-1]
        if not store.is_on:
            return ()
        parted = shared_length(list(store.nearest(prompt)), prompt, 0)
        first = self.length(seq_id) + FEWEST_BEFORE_CHECKPOINT
        positions = {at for at in (*branches, parted) if first <= at <= len(prompt)}
        self._checkpoints[seq_id] = positions
        return tuple(sorted(positions))

    def expect(self, seq_id: SeqId, num_cells: int) -> None:
        self._reserved.set(seq_id, num_cells)

    def expected(self, seq_id: SeqId) -> int:
        return self._reserved.of(seq_id)

    def advance(self, seq_id: SeqId, tokens: Sequence[Token]) -> None:
        self._tokens[seq_id] += tokens
        self._reserved.use(seq_id, len(tokens))
        if self.length(seq_id) in self._checkpoints[seq_id]:
            self._swap.save_whole(seq_id, self._tokens[seq_id])

    def pin(self, name: str, tokens: Sequence[Token]) -> None:
        raise Unavailable(
            f"The prompt '{name}' cannot be pinned: the cells of this model cannot be shared as it "
            "is opened; leave out --warm."
        )

    def retire(self, seq_id: SeqId) -> None:
        self._swap.save_whole(seq_id, self._tokens[seq_id])
        self.evict(seq_id, self.length(seq_id))

    def suspend(self, seq_id: SeqId) -> Claim:
        claim = self._swap.store.claim(self._tokens[seq_id], Rank.SUSPENDED)
        self.retire(seq_id)
        return claim

    def release(self, claim: Claim) -> None:
        self._swap.store.release(claim)

    def evict(self, seq_id: SeqId, end: int) -> None:
        self._reserved.drop(seq_id)
        del self._checkpoints[seq_id], self._prompts[seq_id], self._tokens[seq_id]
        if end:
            self._memory.cut(seq_id, 0, end)
        self._unused.append(seq_id)

    def room(self) -> int:
        return self._num_cells - sum(map(len, self._tokens.values()))

    def make_room(self, num_cells: int) -> None:
        assert num_cells <= self.room(), "nothing is kept that could be evicted"

    def restrain(self, *, keeps: bool, host_bytes: int) -> None:
        self._swap.store.limit_host(host_bytes)

    def resize(self, num_cells: int, num_seqs: int) -> None:
        assert not self._tokens, "nothing runs"
        self._num_cells, self._num_seqs = num_cells, num_seqs
        self._unused = unused_ids(num_seqs)

    def rest(self) -> bool:
        return self._swap.store.rest()

    def check_integrity(self) -> None:
        self._reserved.check_integrity()
        self._swap.store.check_integrity()
        assert self.room() >= 0
        assert sorted(self._tokens) == self._reserved.seq_ids()
        assert self._tokens.keys() == self._prompts.keys() == self._checkpoints.keys()
        assert sorted([*self._unused, *self._tokens]) == list(range(self._num_seqs))
