"""Which sequence ids hold which runs of tokens: a radix tree of the cells in use.

A node is a run of tokens, one cell each, and knows the sequences that hold those cells;
the path from the root to a sequence's tail spells what the sequence sees.

    root ── 1 2 3 ──┬── 4 5        1 2 3 4 5 is held by 0
        (held by    └── 6          1 2 3 6   is held by 1
          0 and 1)

A child has fewer holders than its parent, else the two are one node. So a path has at most
one node a sequence id, however long it is, and a lone sequence grows its tail in place.
Knows nothing of llama.cpp, requests or time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, count
from operator import ne

from edgekv.core.request import SeqId, Token


@dataclass(slots=True, eq=False)
class Node:
    tokens: list[Token]
    parent: Node | None
    running: set[SeqId]
    kept: set[SeqId]
    children: dict[Token, Node] = field(default_factory=dict)

    @property
    def num_holders(self) -> int:
        return len(self.running) + len(self.kept)

    @property
    def holders(self) -> set[SeqId]:
        return self.running | self.kept


@dataclass(frozen=True, slots=True)
class Match:
    """The longest held prefix of some tokens, and all who hold the whole of it."""

    length: int
    holders: frozenset[SeqId]
    num_kept: int
    """How many of its tokens only kept sequences hold."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """The first `length` tokens of `holder`."""

    holder: SeqId
    length: int


class RadixTree:
    """`num_cells`, `num_shared` (two or more holders) and `num_kept` (only kept holders) count
    tokens; they are kept up to date, never added up.
    """

    def __init__(self) -> None:
        self._root = Node([], None, set(), set())
        self._tails: dict[SeqId, Node] = {}
        self._lengths: dict[SeqId, int] = {}
        self.num_cells = self.num_shared = self.num_kept = 0

    def match(self, tokens: Sequence[Token]) -> Match:
        """The longest held prefix of `tokens`. Changes nothing."""
        node, length, num_kept = self._root, 0, 0
        while length < len(tokens) and (child := node.children.get(tokens[length])):
            node = child
            shared = shared_length(node.tokens, tokens, length)
            length += shared
            num_kept += 0 if node.running else shared
            if shared < len(node.tokens):
                break
        return Match(length, frozenset(node.holders), num_kept)

    def holders_along(self, tokens: Sequence[Token]) -> list[tuple[int, set[SeqId]]]:
        """Who holds how much of `tokens`: (length, holders of so much), longest first.

        Each holder comes again with every shorter length.
        """
        node, length = self._root, 0
        steps: list[tuple[int, set[SeqId]]] = []
        while length < len(tokens) and (child := node.children.get(tokens[length])):
            node = child
            shared = shared_length(node.tokens, tokens, length)
            length += shared
            steps.append((length, node.holders))
            if shared < len(node.tokens):
                break
        return steps[::-1]

    def seq_ids(self) -> set[SeqId]:
        return set(self._lengths)

    def length(self, seq_id: SeqId) -> int:
        return self._lengths[seq_id]

    def private_start(self, seq_id: SeqId) -> int:
        """From where on `seq_id` is the only holder of what it holds."""
        tail, length = self._tails[seq_id], self._lengths[seq_id]
        return length - len(tail.tokens) if tail.num_holders == 1 else length

    def tokens(self, seq_id: SeqId) -> list[Token]:
        path = reversed(list(self._path(seq_id)))
        return [token for node in path for token in node.tokens]

    def others(self, seq_id: SeqId) -> set[SeqId]:
        """The other sequences that hold everything `seq_id` holds, if it holds anything."""
        return self._tails[seq_id].holders - {seq_id}

    def acquire(self, seq_id: SeqId) -> None:
        """Let `seq_id` run: a new one holds nothing, a kept one what it kept."""
        if seq_id not in self._tails:
            self._tails[seq_id], self._lengths[seq_id] = self._root, 0
        for node in self._path(seq_id):
            self._count(node, -1)
            node.kept.remove(seq_id)
            node.running.add(seq_id)
            self._count(node, +1)

    def keep(self, seq_id: SeqId) -> None:
        """`seq_id` no longer runs but holds its tokens."""
        for node in self._path(seq_id):
            self._count(node, -1)
            node.running.remove(seq_id)
            node.kept.add(seq_id)
            self._count(node, +1)

    def advance(self, seq_id: SeqId, tokens: Sequence[Token]) -> Prefix | None:
        """Let a running sequence go on by `tokens`.

        Returns how far another sequence spells the same, or None if already the first of
        `tokens` is new.
        """
        node, twin, done = self._tails[seq_id], None, 0
        while done < len(tokens) and (child := node.children.get(tokens[done])):
            shared = shared_length(child.tokens, tokens, done)
            if shared < len(child.tokens):
                child = self._split(child, shared)
            done += shared
            twin = Prefix(min(child.holders), self._lengths[seq_id] + done)
            node = self._join(child, seq_id)
        if done < len(tokens):
            node = self._grow(node, seq_id, tokens[done:])
        self._tails[seq_id] = node
        self._lengths[seq_id] += len(tokens)
        return twin

    def cut(self, seq_id: SeqId, length: int) -> None:
        """Let `seq_id` hold only its first `length` tokens."""
        node, end = self._tails[seq_id], self._lengths[seq_id]
        while end > length:
            start = end - len(node.tokens)
            if start < length:
                #      start    length    end
                # node   |────────|────────|    becomes two; the right one is left
                self._split(node, length - start)
                start = length
            parent = _parent(node)
            self._leave(node, seq_id)
            node, end = parent, start
        self._tails[seq_id], self._lengths[seq_id] = node, end

    def evict(self, seq_id: SeqId) -> None:
        """Forget `seq_id`; runs that it alone held disappear."""
        self.cut(seq_id, 0)
        del self._tails[seq_id], self._lengths[seq_id]

    def runs(self) -> list[tuple[int, Node]]:
        """Every node with the position of its first token, parents before children."""
        return list(_runs_below(self._root, 0))

    def check_integrity(self) -> None:
        """Compare every shortcut with a walk of the whole tree. Raises `AssertionError`."""
        nodes = [node for _, node in self.runs()]
        for node in nodes:
            _check_node(node, {s for s, tail in self._tails.items() if tail is node})
        assert self.num_cells == sum(len(n.tokens) for n in nodes)
        assert self.num_shared == sum(len(n.tokens) for n in nodes if n.num_holders > 1)
        assert self.num_kept == sum(len(n.tokens) for n in nodes if not n.running)
        for seq_id, length in self._lengths.items():
            path = list(self._path(seq_id))
            assert all(seq_id in node.holders for node in path)
            assert length == sum(len(node.tokens) for node in path)
        assert self._lengths.keys() == self._tails.keys()

    def _path(self, seq_id: SeqId) -> Iterator[Node]:
        """The nodes of a sequence, tail first."""
        node = self._tails[seq_id]
        while node.parent is not None:
            yield node
            node = node.parent

    def _count(self, node: Node, sign: int) -> None:
        """Add a node to the counters, or with -1 take it out before its holders change."""
        num_tokens = sign * len(node.tokens)
        self.num_cells += num_tokens
        self.num_shared += num_tokens if node.num_holders > 1 else 0
        self.num_kept += 0 if node.running else num_tokens

    def _grow(self, tail: Node, seq_id: SeqId, tokens: Sequence[Token]) -> Node:
        """Put new tokens behind a sequence's tail; returns the new tail."""
        if tail.parent is not None and tail.num_holders == 1:
            tail.tokens.extend(tokens)
            self.num_cells += len(tokens)
            return tail
        node = Node(list(tokens), tail, {seq_id}, set())
        tail.children[tokens[0]] = node
        self._count(node, +1)
        return node

    def _join(self, node: Node, seq_id: SeqId) -> Node:
        """Let a running sequence hold a node too; returns the node that holds its tokens now."""
        self._count(node, -1)
        node.running.add(seq_id)
        self._count(node, +1)
        parent = _parent(node)
        if parent is not self._root and parent.num_holders == node.num_holders:
            self._merge(parent, node)
            return parent
        return node

    def _leave(self, node: Node, seq_id: SeqId) -> None:
        self._count(node, -1)
        node.running.discard(seq_id)
        node.kept.discard(seq_id)
        if not node.num_holders:
            del _parent(node).children[node.tokens[0]]
            return
        self._count(node, +1)
        for child in list(node.children.values()):
            if child.num_holders == node.num_holders:  # then it is the only child
                self._merge(node, child)

    def _split(self, node: Node, at: int) -> Node:
        """Make two nodes of one; returns the new upper one, `node` stays the lower.

        The two have the same holders until a caller lets one sequence join or leave.
        """
        assert 0 < at < len(node.tokens)
        parent, first = _parent(node), node.tokens[0]
        upper = Node(node.tokens[:at], parent, set(node.running), set(node.kept))
        del node.tokens[:at]
        parent.children[first] = upper
        upper.children[node.tokens[0]] = node
        node.parent = upper
        return upper

    def _merge(self, node: Node, child: Node) -> None:
        """Make one node of two with the same holders."""
        node.tokens.extend(child.tokens)
        node.children = child.children
        for grandchild in node.children.values():
            grandchild.parent = node
        for seq_id in child.holders:
            if self._tails[seq_id] is child:
                self._tails[seq_id] = node


def shared_length(run: list[Token], tokens: Sequence[Token], start: int) -> int:
    """How many tokens of `run` and of `tokens[start:]` are the same, from the left."""
    # The inner loop of every match, so C does the looping: first for the usual case, all the same.
    other = list(tokens[start : start + len(run)])
    if run == other:
        return len(run)
    return next(compress(count(), map(ne, run, other)), len(other))


def _parent(node: Node) -> Node:
    assert node.parent is not None, "the root has no holders that could change"
    return node.parent


def _runs_below(node: Node, start: int) -> Iterator[tuple[int, Node]]:
    for child in node.children.values():
        yield start, child
        yield from _runs_below(child, start + len(child.tokens))


def _check_node(node: Node, ending_here: set[SeqId]) -> None:
    parent = _parent(node)
    assert node.tokens
    assert parent.children[node.tokens[0]] is node
    assert not node.running & node.kept
    assert parent.parent is None or node.num_holders < parent.num_holders
    below = [child.holders for child in node.children.values()]
    assert sum(map(len, below)) + len(ending_here) == node.num_holders, "holders overlap"
    assert ending_here.union(*below) == node.holders
