"""Cells on their way between the pool and the store."""

from __future__ import annotations

from collections.abc import Sequence

from edgekv.core.ports import KVMemory
from edgekv.core.request import SeqId, Token
from edgekv.kv.cell_cache import StoreCounts
from edgekv.kv.store import Store

PIECE_CELLS = 256
"""At most so many cells move at once: what a copy takes beside the pool, and how long the writing
of one to disk holds up a step, do not grow with the conversation.
"""

FEWEST_CELLS = 8
"""Fewer are computed again sooner than they are looked after."""


UNREADABLE = "llama.cpp could not read its copy"


class Swap:
    """`bytes_out` and `bytes_in` count what moved so far."""

    def __init__(self, memory: KVMemory, store: Store) -> None:
        self._memory, self.store = memory, store
        self.bytes_out = self.bytes_in = 0

    def counts(self) -> StoreCounts:
        store = self.store
        return StoreCounts(store.host_bytes, store.disk_bytes, self.bytes_out, self.bytes_in)

    def save(self, seq_id: SeqId, tokens: Sequence[Token], start: int) -> None:
        """Copy the cells of `tokens[start:]`, which `seq_id` has, unless they are stored."""
        while (done := self.save_piece(seq_id, tokens, start)) is not None:
            start = done

    def save_piece(
        self, seq_id: SeqId, tokens: Sequence[Token], start: int, *, may_drop: bool = True
    ) -> int | None:
        """As `save`, but one piece at most; up to where it went, or None if that was the last.

        `may_drop` is as for `Store.put`.
        """
        if not self.store.is_on:
            return None
        start = self.store.reach(tokens, start)
        if len(tokens) - start < FEWEST_CELLS:
            return None
        end = min(start + PIECE_CELLS, len(tokens))
        is_stored = self._put(seq_id, tokens[:end], start, may_drop=may_drop)
        return end if is_stored and end < len(tokens) else None

    def save_whole(self, seq_id: SeqId, tokens: Sequence[Token]) -> None:
        """Copy the state of `seq_id` after `tokens` in one piece, for models without a past."""
        if not self.store.is_on or len(tokens) < FEWEST_CELLS:
            return
        stored = self.store.find_whole(tokens)
        if stored is None or stored.end < len(tokens):
            self._put(seq_id, tokens, 0)

    def load(self, seq_id: SeqId, tokens: Sequence[Token], known: int, room: int) -> int:
        """Give `seq_id` stored cells behind the `known` ones it has; returns how many it has then.

        At most `room` free cells are used at any moment.
        """
        while (stored := self.store.find(tokens, known)) is not None:
            entry = stored.entry
            # All of a blob passes through the pool, whatever part of it is wanted.
            if entry.end - entry.start > room:
                break
            blob = self.store.get(entry)
            if blob is None:
                continue
            if not self._memory.load(blob, seq_id, known, stored.end):
                self.store.forget(entry, UNREADABLE)
                continue
            self.bytes_in += len(blob)
            room -= stored.end - known
            known = stored.end
        return known

    def load_whole(self, seq_id: SeqId, tokens: Sequence[Token]) -> int:
        """Give `seq_id`, which has nothing, the longest stored state; returns its length."""
        while (stored := self.store.find_whole(tokens)) is not None:
            blob = self.store.get(stored.entry)
            if blob is None:
                continue
            if self._memory.load(blob, seq_id, 0, stored.end):
                self.bytes_in += len(blob)
                return stored.end
            self.store.forget(stored.entry, UNREADABLE)
        return 0

    def _put(
        self, seq_id: SeqId, tokens: Sequence[Token], start: int, *, may_drop: bool = True
    ) -> bool:
        blob = self._memory.save(seq_id, start, len(tokens))
        self.bytes_out += len(blob)
        return self.store.put(tokens, start, blob, may_drop=may_drop)
