"""Where a prompt parts from what was known before: for people who wonder why it was computed."""

from __future__ import annotations

from collections.abc import Sequence

from edgekv.core.inspection import Difference
from edgekv.core.request import Token
from edgekv.kv.radix_tree import Match, RadixTree, shared_length

NUM_NEIGHBOURS = 8
"""Tokens shown on either side of where a prompt differs."""


def difference(
    wanted: Sequence[Token], pool: RadixTree, match: Match, stored: Sequence[Token]
) -> Difference | None:
    """Where `wanted` parts from the most similar tokens, if it does before either of them ends.

    `match` is what the pool has of it, and `stored` the most similar path in the store.
    """
    position = shared_length(list(stored), wanted, 0)
    found = stored
    if match.length >= position and match.holders:
        position, found = match.length, pool.tokens(min(match.holders))
    if not 0 < position < min(len(found), len(wanted)):
        return None
    around = slice(max(0, position - NUM_NEIGHBOURS), position + NUM_NEIGHBOURS)
    return Difference(position, tuple(wanted[around]), tuple(found[around]))
