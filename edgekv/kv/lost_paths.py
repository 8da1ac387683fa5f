"""What was dropped lately and by what, so that a prompt computed again can be explained."""

from __future__ import annotations

from collections.abc import Sequence

from edgekv.core.inspection import Lost
from edgekv.core.request import SeqId, Token
from edgekv.kv.radix_tree import RadixTree

NUM_REMEMBERED = 32


class LostPaths:
    """Tokens whose cells are gone, the latest few."""

    def __init__(self) -> None:
        self._tree = RadixTree()
        self._how: dict[SeqId, str] = {}
        """By number, the oldest first. A number stands where a tree of cells has a sequence id."""
        self._next_number = 0

    def note(self, tokens: Sequence[Token], how: str) -> None:
        number = SeqId(self._next_number)
        self._next_number += 1
        self._tree.acquire(number)
        self._tree.advance(number, tokens)
        self._how[number] = how
        if len(self._how) > NUM_REMEMBERED:
            oldest = next(iter(self._how))
            del self._how[oldest]
            self._tree.evict(oldest)

    def find(self, tokens: Sequence[Token], known: int) -> Lost | None:
        """The latest loss of more of `tokens` than the first `known`."""
        match = self._tree.match(tokens)
        if match.length <= known:
            return None
        return Lost(match.length, self._how[max(match.holders)])
