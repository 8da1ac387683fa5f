"""What the scheduler needs to know of cells: who gets a sequence id, and what it sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from edgekv.core.inspection import CacheView, HeldRun, Miss
from edgekv.core.request import SeqId, Token
from edgekv.kv.claims import Claim
from edgekv.kv.radix_tree import Prefix


@dataclass(frozen=True, slots=True)
class Acquired:
    seq_id: SeqId
    num_reused: int
    """Tokens, from the first, whose cells the id shares with others."""
    num_restored: int = 0
    """Tokens behind those whose cells came out of the store."""
    miss: Miss | None = None
    """Why the rest has to be computed, if more than the last token does and it can be told."""

    @property
    def num_known(self) -> int:
        return self.num_reused + self.num_restored


@dataclass(frozen=True, slots=True)
class CellCounts:
    """As in `core.frames.Snapshot`: shared and kept are part of used, reserved is part of free."""

    used: int
    shared: int
    kept: int
    reserved: int


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """As in `core.frames.Snapshot`. All are bytes."""

    host_bytes: int
    disk_bytes: int
    bytes_out: int
    bytes_in: int


class CellCache(Protocol):
    def promised(self, tokens: Sequence[Token]) -> Prefix | None:
        """The part of `tokens` that a running sequence is about to compute, if that is more
        than is known now. Waiting for it lets a burst with one prefix compute it once.
        """

    def acquire(self, tokens: Sequence[Token], expected: int) -> Acquired | None:
        """A sequence id that sees the longest known prefix of `tokens`, short of the last one.

        `expected` is how many cells the sequence will probably hold in the end, at least one a
        token. What the prefix does not cover is reserved: nobody else is admitted into it. May
        evict kept sequences. Returns None, and changes nothing, if there is no room now.
        """

    def shortage(self, tokens: Sequence[Token], expected: int) -> int:
        """How many cells `acquire` lacks now; 0 or less if there is room."""

    def freed_by(self, seq_id: SeqId) -> int:
        """Cells that others could have at once if a running sequence were suspended, at least."""

    def checkpoints(self, seq_id: SeqId, branches: Sequence[int]) -> tuple[int, ...]:
        """Positions up to which exactly the cells must be computed at some moment, for a copy of
        them as they are then is of use to others. `branches` are where those will probably part.
        """

    def expect(self, seq_id: SeqId, num_cells: int) -> None:
        """A running sequence will probably need so many more cells than it has."""

    def expected(self, seq_id: SeqId) -> int:
        """How many more cells a running sequence will probably need."""

    def advance(self, seq_id: SeqId, tokens: Sequence[Token]) -> None:
        """Record that `tokens` were just computed for `seq_id`, behind what it had."""

    def retire(self, seq_id: SeqId) -> None:
        """A running sequence has ended; its cells may be kept for others to share."""

    def pin(self, name: str, tokens: Sequence[Token]) -> None:
        """Once they are computed, let go of these cells after everything else that is kept.

        Raises `InvalidValue` if they are too many, and `Unavailable` where none can be kept.
        """

    def suspend(self, seq_id: SeqId) -> Claim:
        """A running sequence gives its id and cells back. What only it held goes to the store,
        where `acquire` finds it by its tokens. Until the claim is released the store drops
        whatever is of use to nobody but later prompts first.
        """

    def release(self, claim: Claim) -> None:
        """What was suspended has gone on, or will not."""

    def evict(self, seq_id: SeqId, end: int) -> None:
        """Drop a running sequence whose cells up to position `end` cannot be trusted."""

    def room(self) -> int:
        """Cells that running sequences could have now, reserved or not."""

    def make_room(self, num_cells: int) -> None:
        """Have so many of the cells of `room` free. May evict kept sequences."""

    def running(self) -> list[SeqId]:
        """Acquired and not yet retired, ascending."""

    def length(self, seq_id: SeqId) -> int:
        """Tokens that a running sequence has cells for."""

    def restrain(self, *, keeps: bool, host_bytes: int) -> None:
        """Whether finished sequences may stay in the pool from now on, and what the store may have
        of host memory. What is beyond goes to disk.
        """

    def resize(self, num_cells: int, num_seqs: int) -> None:
        """Go on with another pool, which is empty. Nothing runs; what is kept goes to the store
        while the old one is still there.
        """

    def rest(self) -> bool:
        """Do one piece of what can wait until nothing runs; False if there is nothing."""

    def held(self) -> tuple[HeldRun, ...]:
        """Who holds which cells now."""

    def view(self) -> CacheView:
        """For people: who holds what now, and what the store has."""

    def counts(self) -> CellCounts: ...

    def store_counts(self) -> StoreCounts: ...

    def check_integrity(self) -> None:
        """Raises `AssertionError` if the books do not agree with themselves."""
