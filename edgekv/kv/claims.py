"""Which stored cells somebody depends on, by tokens: what the store gives up last.

claim      1 2 3 4 5 6          an answer that goes on from these tokens
entry A    cells of [0, 4)      1 2 3 4          claimed
entry B    cells of [4, 8)      1 2 3 4 5 6 9 9  claimed: 5 and 6 are of use
entry C    cells of [4, 6)      1 2 3 4 8 8      not claimed
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from edgekv.core.request import SeqId, Token
from edgekv.kv.radix_tree import RadixTree


class Rank(IntEnum):
    """The lowest is dropped first, and never for its sake one of a higher rank."""

    KEPT = 0
    """Of use to whoever asks for the same again."""
    PINNED = 1
    """The user wants it kept."""
    SUSPENDED = 2
    """An answer that has begun goes on from it."""


@dataclass(frozen=True, slots=True)
class Claim:
    number: SeqId
    """Stands where a tree of cells has a sequence id."""
    rank: Rank


def highest(claims: Iterable[Claim]) -> Rank:
    return max((claim.rank for claim in claims), default=Rank.KEPT)


class Claims:
    """Those that have not been taken back."""

    def __init__(self) -> None:
        self._tree = RadixTree()
        self._claims: dict[SeqId, Claim] = {}
        self._next_number = 0

    def add(self, tokens: Sequence[Token], rank: Rank) -> Claim:
        claim = Claim(SeqId(self._next_number), rank)
        self._next_number += 1
        self._claims[claim.number] = claim
        self._tree.acquire(claim.number)
        self._tree.advance(claim.number, tokens)
        return claim

    def remove(self, claim: Claim) -> None:
        del self._claims[claim.number]
        self._tree.evict(claim.number)

    def on(self, tokens: Sequence[Token], start: int) -> set[Claim]:
        """The claims on cells of `tokens[start:]`."""
        along = self._tree.holders_along(tokens) if self._claims else []
        return {self._claims[n] for length, numbers in along if length > start for n in numbers}

    def check_integrity(self) -> None:
        self._tree.check_integrity()
        assert self._claims.keys() == self._tree.seq_ids()
