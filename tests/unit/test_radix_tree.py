"""The fast tree against its slow twin, and the few shapes worth seeing one by one."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from edgekv.core.request import SeqId, Token
from edgekv.kv.radix_tree import Match, Prefix, RadixTree, shared_length
from tests.slow_tree import SlowTree

NUM_SEQS = 6
ids = st.integers(0, NUM_SEQS - 1).map(SeqId)
# Two letters make most runs meet; three would make most of them new.
runs = st.lists(st.integers(1, 2).map(Token), min_size=1, max_size=6)


def tokens(text: str) -> list[Token]:
    return [Token(ord(letter)) for letter in text]


def grown(**texts: str) -> RadixTree:
    """A tree in which sequence 0 spells `a`, 1 `b`, …"""
    tree = RadixTree()
    for number, text in enumerate(texts.values()):
        tree.acquire(SeqId(number))
        tree.advance(SeqId(number), tokens(text))
    return tree


class TreeAndTwin(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.tree, self.twin = RadixTree(), SlowTree()
        self.running: set[SeqId] = set()
        self.kept: set[SeqId] = set()

    @rule(seq_id=ids)
    def acquire(self, seq_id: SeqId) -> None:
        if seq_id in self.running:
            return
        self.tree.acquire(seq_id)
        if seq_id in self.kept:
            self.kept.remove(seq_id)
        else:
            self.twin.hold(seq_id, [])
        self.running.add(seq_id)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), run=runs)
    def advance(self, data: st.DataObject, run: Sequence[Token]) -> None:
        seq_id = data.draw(st.sampled_from(sorted(self.running)))
        before = self.twin.tokens(seq_id)
        known = self.twin.match([*before, *run])
        twin = self.tree.advance(seq_id, run)
        if known.length > len(before):
            assert twin is not None
            assert twin.length == known.length
            assert twin.holder in known.holders - {seq_id}
        else:
            assert twin is None
        self.twin.hold(seq_id, [*before, *run])

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def keep(self, data: st.DataObject) -> None:
        seq_id = data.draw(st.sampled_from(sorted(self.running)))
        self.running.remove(seq_id)
        self.kept.add(seq_id)
        self.tree.keep(seq_id)

    @precondition(lambda self: self.running | self.kept)
    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        seq_id = data.draw(st.sampled_from(sorted(self.running | self.kept)))
        before = self.twin.tokens(seq_id)
        length = data.draw(st.integers(0, len(before)))
        self.tree.cut(seq_id, length)
        self.twin.hold(seq_id, before[:length])

    @precondition(lambda self: self.running | self.kept)
    @rule(data=st.data())
    def evict(self, data: st.DataObject) -> None:
        seq_id = data.draw(st.sampled_from(sorted(self.running | self.kept)))
        self.running.discard(seq_id)
        self.kept.discard(seq_id)
        self.tree.evict(seq_id)
        self.twin.evict(seq_id)

    @rule(wanted=st.lists(st.integers(1, 2).map(Token), max_size=12))
    def match(self, wanted: Sequence[Token]) -> None:
        self.twin.kept = self.kept
        assert self.tree.match(wanted) == self.twin.match(wanted)

    @invariant()
    def they_agree(self) -> None:
        self.twin.kept = self.kept
        for seq_id in self.running | self.kept:
            spelled = self.twin.tokens(seq_id)
            assert self.tree.tokens(seq_id) == spelled
            assert self.tree.length(seq_id) == len(spelled)
            assert self.tree.private_start(seq_id) == self.twin.private_start(seq_id)
            assert self.tree.others(seq_id) == self.twin.others(seq_id)
            assert self.tree.match(spelled) == self.twin.match(spelled)
        assert self.tree.num_cells == self.twin.num_cells
        assert self.tree.num_shared == self.twin.num_shared
        assert self.tree.num_kept == self.twin.num_kept
        self.tree.check_integrity()


TestTreeAndTwin = TreeAndTwin.TestCase
TestTreeAndTwin.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is no fault of the tree
)


def test_shared_cells_are_counted_once() -> None:
    tree = grown(a="system: one", b="system: two")
    assert (tree.num_cells, tree.num_shared) == (len("system: onetwo"), len("system: "))


def test_a_match_ends_inside_a_run_where_the_tokens_differ() -> None:
    tree = grown(a="abcdef")
    assert tree.match(tokens("abcxyz")) == Match(3, frozenset({SeqId(0)}), num_kept=0)
    assert tree.match(tokens("xyz")) == Match(0, frozenset(), num_kept=0)


def test_a_match_says_how_much_only_kept_sequences_hold() -> None:
    tree = grown(a="ab", b="abcd")
    tree.keep(SeqId(1))
    assert tree.match(tokens("abcd")).num_kept == 2
    assert tree.num_kept == 2


def test_what_was_computed_twice_is_found_to_the_token() -> None:
    tree = grown(a="abcd", b="ab")
    assert tree.advance(SeqId(1), tokens("cxyz")) == Prefix(SeqId(0), 3)
    assert tree.advance(SeqId(1), tokens("!")) is None


def test_a_path_has_at_most_one_node_a_sequence_however_often_it_was_split() -> None:
    tree = grown(a="x" * 1000)
    for length in range(1, 1000):
        tree.acquire(SeqId(1))
        tree.advance(SeqId(1), tokens("x" * length))
        tree.evict(SeqId(1))
    assert len(list(tree._path(SeqId(0)))) == 1


def test_sequences_that_grow_in_step_stay_one_run() -> None:
    tree = grown(a="ab", b="ab", c="ab")
    for letter in "cdefgh":
        for number in range(3):
            tree.advance(SeqId(number), tokens(letter))
        tree.check_integrity()
    assert tree.num_cells == 8
    assert len(list(tree._path(SeqId(0)))) == 1


def test_runs_are_compared_from_a_start_and_to_the_shorter_end() -> None:
    assert shared_length(tokens("abc"), tokens("__abcd"), 2) == 3
    assert shared_length(tokens("abc"), tokens("__ab"), 2) == 2
    assert shared_length(tokens("abc"), tokens("__xbc"), 2) == 0
