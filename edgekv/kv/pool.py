"""The cells of the pool and the ids that see them: the tree and the library's memory, in step."""

from __future__ import annotations

from collections.abc import Sequence

from edgekv.core.ports import KVMemory
from edgekv.core.request import SeqId, Token
from edgekv.kv.radix_tree import RadixTree


class Pool:
    """`tree` is for reading; what changes it is here."""

    def __init__(self, memory: KVMemory, num_seqs: int) -> None:
        self._memory = memory
        self.tree = RadixTree()
        self.unused = unused_ids(num_seqs)

    def branch(self, donor: SeqId | None, tokens: Sequence[Token]) -> SeqId:
        """An unused id that runs with `tokens`, all of which the donor holds."""
        seq_id = self.unused.pop()
        self.tree.acquire(seq_id)
        if donor is not None:
            self.tree.advance(seq_id, tokens)
            self._memory.share(donor, seq_id, 0, len(tokens))
        return seq_id

    def advance(self, seq_id: SeqId, tokens: Sequence[Token]) -> None:
        """The library has just computed `tokens` for a running sequence, behind what it had."""
        start = self.tree.length(seq_id)
        twin = self.tree.advance(seq_id, tokens)
        if twin is not None:
            # Another sequence computed the same tokens first: use its cells.
            self._memory.cut(seq_id, start, twin.length)
            self._memory.share(twin.holder, seq_id, start, twin.length)

    def cut(self, seq_id: SeqId, length: int) -> None:
        """Let a sequence see only its first `length` tokens, fewer than it has."""
        self._memory.cut(seq_id, length, self.tree.length(seq_id))
        self.tree.cut(seq_id, length)

    def release(self, seq_id: SeqId, end: int) -> None:
        """Give back an id and its cells up to position `end`."""
        if end:
            self._memory.cut(seq_id, 0, end)
        self.tree.evict(seq_id)
        self.unused.append(seq_id)


def unused_ids(num_seqs: int) -> list[SeqId]:
    """The lowest is taken first."""
    return [SeqId(i) for i in reversed(range(num_seqs))]
