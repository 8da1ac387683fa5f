"""What the scheduler needs to know of cells: who gets a sequence id, and what it sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from edgekv.core.request import SeqId, Token
from edgekv.kv.radix_tree import Prefix


@dataclass(frozen=True, slots=True)
class Acquired:
    seq_id: SeqId
    num_reused: int
    """Tokens of the prompt, from its start, whose cells the id already sees."""


@dataclass(frozen=True, slots=True)
class CellCounts:
    """As in `core.frames.Snapshot`: shared and kept are part of used, reserved is part of free."""

    used: int
    shared: int
    kept: int
    reserved: int


class CellCache(Protocol):
    def promised(self, prompt: Sequence[Token]) -> Prefix | None:
        """The part of `prompt` that a running sequence is about to compute, if that is more
        than is known now. Waiting for it lets a burst with one prefix compute it once.
        """

    def acquire(self, prompt: Sequence[Token], worst_case: int) -> Acquired | None:
        """A sequence id that sees the longest known prefix of `prompt`, short of its last token.

        `worst_case` is the number of cells the request holds if it never stops early; what the
        prefix does not cover is reserved, so a running request never runs out. May evict kept
        sequences. Returns None, and changes nothing, if the request does not fit now.
        """

    def advance(self, seq_id: SeqId, tokens: Sequence[Token]) -> None:
        """Record that `tokens` were just computed for `seq_id`, behind what it had."""

    def retire(self, seq_id: SeqId) -> None:
        """A running sequence has ended; its cells may be kept for others to share."""

    def evict(self, seq_id: SeqId, end: int) -> None:
        """Drop a running sequence whose cells up to position `end` cannot be trusted."""

    def running(self) -> list[SeqId]:
        """Acquired and not yet retired, ascending."""

    def length(self, seq_id: SeqId) -> int:
        """Tokens that a running sequence has cells for."""

    def counts(self) -> CellCounts: ...

    def check_integrity(self) -> None:
        """Raises `AssertionError` if the books do not agree with themselves."""
