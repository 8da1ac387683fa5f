"""The radix tree as plainly as it can be written: nothing counted, every path walked anew.

The twin of `kv.radix_tree`, with the same answers at any price.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from edgekv.core.request import SeqId, Token
from edgekv.kv.radix_tree import Match


@dataclass(slots=True, eq=False)
class Node:
    edge: tuple[Token, ...]
    parent: Node | None
    holders: set[SeqId]
    children: dict[Token, Node] = field(default_factory=dict)


class SlowTree:
    def __init__(self) -> None:
        self._root = Node(edge=(), parent=None, holders=set())
        self._tails: dict[SeqId, Node] = {}
        self.kept: set[SeqId] = set()

    def match(self, tokens: Sequence[Token]) -> Match:
        node, length, num_kept = self._root, 0, 0
        while length < len(tokens) and (child := node.children.get(tokens[length])):
            shared = shared_length(child.edge, tokens[length:])
            length += shared
            num_kept += shared if child.holders <= self.kept else 0
            node = child
            if shared < len(child.edge):
                break
        return Match(length, frozenset(node.holders), num_kept)

    def hold(self, seq_id: SeqId, tokens: Sequence[Token]) -> None:
        """Make `seq_id` hold exactly the path spelled by `tokens`."""
        self.evict(seq_id)
        node, done = self._root, 0
        while done < len(tokens):
            child = node.children.get(tokens[done])
            if child is None:
                child = Node(tuple(tokens[done:]), node, set())
                node.children[tokens[done]] = child
            shared = shared_length(child.edge, tokens[done:])
            if shared < len(child.edge):
                child = split(child, shared)
            child.holders.add(seq_id)
            done += shared
            node = child
        self._tails[seq_id] = node

    def tokens(self, seq_id: SeqId) -> list[Token]:
        return [token for node in reversed(self._path(seq_id)) for token in node.edge]

    def private_start(self, seq_id: SeqId) -> int:
        """From where on `seq_id` is the only holder."""
        return sum(len(node.edge) for node in self._path(seq_id) if node.holders != {seq_id})

    def others(self, seq_id: SeqId) -> set[SeqId]:
        return self._tails[seq_id].holders - {seq_id}

    def evict(self, seq_id: SeqId) -> None:
        node = self._tails.pop(seq_id, None)
        while node is not None and node.parent is not None:
            node.holders.discard(seq_id)
            if not node.holders:
                del node.parent.children[node.edge[0]]
            node = node.parent

    @property
    def num_cells(self) -> int:
        return sum(len(node.edge) for node in self._nodes())

    @property
    def num_shared(self) -> int:
        return sum(len(node.edge) for node in self._nodes() if len(node.holders) > 1)

    @property
    def num_kept(self) -> int:
        return sum(len(node.edge) for node in self._nodes() if node.holders <= self.kept)

    def _path(self, seq_id: SeqId) -> list[Node]:
        """The nodes of a sequence, tail first, and the root."""
        path: list[Node] = []
        node: Node | None = self._tails[seq_id]
        while node is not None:
            path.append(node)
            node = node.parent
        return path

    def _nodes(self) -> Iterator[Node]:
        stack = [self._root]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())


def shared_length(edge: Sequence[Token], tokens: Sequence[Token]) -> int:
    for i, (a, b) in enumerate(zip(edge, tokens, strict=False)):
        if a != b:
            return i
    return min(len(edge), len(tokens))


def split(node: Node, at: int) -> Node:
    """Cut `node`'s edge; returns the new upper half."""
    assert node.parent is not None
    upper = Node(node.edge[:at], node.parent, set(node.holders))
    node.parent.children[upper.edge[0]] = upper
    node.edge, node.parent = node.edge[at:], upper
    upper.children[node.edge[0]] = node
    return upper
