"""What is kept, shared, taken over and evicted, on a memory that keeps llama.cpp's rules."""

from __future__ import annotations

from edgekv.core.batch import BatchPlan, BatchSlice, DecodeStatus
from edgekv.core.request import SeqId, Token
from edgekv.kv.cell_cache import CellCounts
from edgekv.kv.prefix_cache import PrefixCache
from edgekv.kv.store import Store
from tests.cell_backend import CellBackend


def tokens(text: str) -> list[Token]:
    return [Token(ord(letter)) for letter in text]


class Pool:
    """A cache on a strict memory, spoken to in letters."""

    def __init__(self, num_cells: int, num_seqs: int, store: Store | None = None) -> None:
        self.backend = CellBackend(num_cells, num_seqs)
        self.cache = PrefixCache(self.backend, num_cells=num_cells, num_seqs=num_seqs, store=store)

    def acquire(self, prompt: str, answer: int = 1) -> tuple[SeqId, int] | None:
        """Returns the id and how many letters it need not compute."""
        acquired = self.cache.acquire(tokens(prompt), len(prompt) + answer - 1)
        self.check()
        return (acquired.seq_id, acquired.num_known) if acquired else None

    def compute(self, seq_id: SeqId, text: str) -> None:
        start = self.cache.length(seq_id)
        plan = BatchPlan((BatchSlice(seq_id, start, tuple(tokens(text)), False),))
        self.cache.make_room(len(text))
        assert self.backend.decode(plan) is DecodeStatus.DONE
        self.cache.advance(seq_id, tokens(text))
        self.check()

    def run(self, prompt: str) -> SeqId:
        """Acquire and compute a whole prompt."""
        acquired = self.acquire(prompt)
        assert acquired is not None
        seq_id, num_known = acquired
        self.compute(seq_id, prompt[num_known:])
        return seq_id

    def keep(self, prompt: str) -> SeqId:
        seq_id = self.run(prompt)
        self.cache.retire(seq_id)
        self.check()
        return seq_id

    def visible(self, seq_id: SeqId) -> str:
        return "".join(chr(token) for token in self.backend.visible(seq_id))

    def kept(self) -> list[str]:
        return [self.visible(seq_id) for seq_id in self.cache.kept()]

    def check(self) -> None:
        self.cache.check_integrity()
        assert self.cache.counts().used == len(self.backend.cells())
        for seq_id in (*self.cache.running(), *self.cache.kept()):
            assert self.cache.tokens(seq_id) == self.backend.visible(seq_id)


def test_the_last_prompt_token_is_always_computed() -> None:
    pool = Pool(20, 2)
    pool.keep("abcd")
    again = pool.acquire("abcd")
    assert again is not None
    assert pool.visible(again[0]) == "abc"


def test_a_running_sequence_shares_what_it_has_computed() -> None:
    pool = Pool(20, 2)
    first = pool.run("system: a")
    acquired = pool.acquire("system: b")
    assert acquired is not None
    second, num_reused = acquired
    assert num_reused == len("system: ")
    assert pool.visible(second) == "system: "
    pool.cache.retire(first)
    assert pool.cache.counts() == CellCounts(used=9, shared=8, kept=1, reserved=1)


def test_a_prefix_outlives_the_one_that_computed_it() -> None:
    pool = Pool(12, 2)
    first = pool.run("system: a")
    second = pool.run("system: b")
    pool.cache.retire(first)
    assert pool.acquire("xy") is not None
    assert pool.visible(second) == "system: b"


def test_the_oldest_is_evicted_first() -> None:
    pool = Pool(6, 6)
    for prompt in ("ab", "cd", "ef"):
        pool.keep(prompt)
    assert pool.acquire("xy") is not None
    assert pool.kept() == ["cd", "ef"]


def test_what_was_used_again_is_not_the_oldest_any_more() -> None:
    pool = Pool(6, 6)
    for prompt in ("ab", "cd", "ef", "ab"):
        pool.keep(prompt)
    assert pool.kept() == ["cd", "ef", "ab"]
    assert pool.acquire("xy") is not None
    assert pool.kept() == ["ef", "ab"]


def test_no_more_is_evicted_than_is_needed() -> None:
    pool = Pool(10, 6)
    for prompt in ("abc", "def", "ghi"):
        pool.keep(prompt)
    assert pool.acquire("xyz") is not None
    assert pool.kept() == ["def", "ghi"]


def test_a_request_that_does_not_fit_evicts_nobody() -> None:
    pool = Pool(10, 6)
    pool.run("abcd")
    pool.keep("xyz")
    assert pool.acquire("1234567") is None
    assert pool.kept() == ["xyz"]


def test_a_shared_prefix_is_not_evicted_to_make_room_for_its_own_rest() -> None:
    pool = Pool(8, 2)
    pool.run("1234")
    pool.keep("abc")
    assert pool.acquire("abcdefg") is None
    acquired = pool.acquire("abcd")
    assert acquired == (SeqId(1), 3)


def test_a_kept_sequence_is_taken_over_when_there_is_no_other_id() -> None:
    pool = Pool(20, 1)
    pool.keep("abcdef")
    assert pool.acquire("abcxyz") == (SeqId(0), 3)
    assert pool.visible(SeqId(0)) == "abc"


def test_a_continued_conversation_takes_no_second_id() -> None:
    pool = Pool(20, 2)
    first = pool.keep("abcdef")
    assert pool.acquire("abcdefgh") == (first, 6)
    assert pool.kept() == []


def test_a_branch_leaves_the_other_branch_kept_while_there_are_ids() -> None:
    pool = Pool(20, 2)
    pool.keep("abcdef")
    pool.keep("abcxyz")
    assert pool.kept() == ["abcdef", "abcxyz"]


def test_the_same_conversation_again_takes_no_second_id_but_makes_the_first_one_recent() -> None:
    pool = Pool(40, 4)
    for prompt in ("abcdef", "xyz", "abcd"):
        pool.keep(prompt)
    assert pool.kept() == ["xyz", "abcdef"]


def test_nothing_computed_is_nothing_kept() -> None:
    pool = Pool(20, 2)
    acquired = pool.acquire("abc")
    assert acquired is not None
    pool.cache.retire(acquired[0])
    assert pool.kept() == []
    pool.check()


def test_tokens_computed_twice_are_held_once() -> None:
    pool = Pool(20, 2)
    first, second = pool.acquire("abcd"), pool.acquire("abcd")
    assert first is not None
    assert second is not None
    pool.compute(first[0], "abcd")
    pool.compute(second[0], "abcd")
    assert pool.cache.counts() == CellCounts(used=4, shared=4, kept=0, reserved=0)


def test_a_sequence_that_outgrows_what_was_expected_takes_free_room() -> None:
    pool = Pool(10, 2)
    seq_id = pool.run("ab")
    pool.compute(seq_id, "cdefgh")
    assert pool.cache.expected(seq_id) == 0
    assert pool.acquire("xyz") is None
    pool.cache.expect(seq_id, 2)
    assert pool.acquire("x") is None


def test_what_is_reserved_is_given_to_nobody_else() -> None:
    pool = Pool(10, 3)
    first = pool.acquire("ab", answer=7)
    assert first is not None
    assert pool.acquire("xyz") is None
    assert pool.acquire("xy") is not None


def test_no_id_is_left_when_all_are_running() -> None:
    pool = Pool(10, 1)
    pool.run("a")
    assert pool.acquire("b") is None


def test_an_evicted_sequence_leaves_nothing_behind() -> None:
    pool = Pool(10, 2)
    seq_id = pool.run("abc")
    pool.cache.evict(seq_id, 7)
    pool.check()
    assert pool.cache.counts() == CellCounts(used=0, shared=0, kept=0, reserved=0)
    assert pool.acquire("abc") == (seq_id, 0)


def test_a_promise_is_what_a_running_prompt_will_add_to_what_is_known() -> None:
    pool = Pool(40, 3)
    acquired = pool.acquire("abcdef")
    assert acquired is not None
    leader = acquired[0]
    promise = pool.cache.promised(tokens("abcdxy"))
    assert promise is not None
    assert (promise.holder, promise.length) == (leader, 4)
    assert pool.cache.promised(tokens("xyz")) is None
    pool.compute(leader, "abcd")
    assert pool.cache.promised(tokens("abcdxy")) is None
    assert pool.cache.promised(tokens("abcdef!")) is not None
    pool.compute(leader, "e")
    assert pool.cache.promised(tokens("abcdef")) is None, "its last token is computed anyway"


def test_a_suspension_frees_what_one_alone_holds_and_what_is_reserved_for_it() -> None:
    pool = Pool(20, 3)
    first = pool.acquire("abcdef", answer=4)
    assert first is not None
    pool.compute(first[0], "abcdef")
    assert pool.cache.freed_by(first[0]) == 6 + 3
    pool.run("abcdxy")
    assert pool.cache.freed_by(first[0]) == 2 + 3
