"""What is kept leaves the pool beside what runs, if nothing is lost by it.

A talk here has 8 letters and more, which is the least that is worth a copy.
"""

from __future__ import annotations

import pytest

from edgekv.kv import swap
from edgekv.kv.store import Store
from tests.unit.test_prefix_cache import Pool, tokens

MIB = 1024**2


def test_alone_in_the_pool_nothing_leaves_it() -> None:
    pool = Pool(40, 4, Store(host_limit_bytes=MIB))
    pool.keep("a first talk")
    assert pool.kept() == ["a first talk"]


def test_what_has_a_copy_leaves_when_another_begins_and_comes_back_whole() -> None:
    pool = Pool(40, 4, Store(host_limit_bytes=MIB))
    pool.keep("a first talk")
    other = pool.run("the second")
    assert pool.kept() == []
    assert pool.visible(other) == "the second"
    back = pool.acquire("a first talk goes on")
    assert back is not None
    assert pool.visible(back[0]) == "a first talk"


def test_what_ends_beside_others_leaves_at_once() -> None:
    pool = Pool(40, 4, Store(host_limit_bytes=MIB))
    first, other = pool.run("a first talk"), pool.run("the second")
    pool.cache.retire(first)
    pool.check()
    assert pool.kept() == []
    assert pool.cache.counts().used == len("the second")
    pool.cache.retire(other)
    assert pool.kept() == ["the second"]


def test_what_has_no_room_for_a_copy_stays() -> None:
    for store in (Store(), Store(host_limit_bytes=8)):
        pool = Pool(40, 4, store)
        pool.keep("a first talk")
        pool.run("the second")
        assert pool.kept() == ["a first talk"]


def test_a_copy_of_what_is_in_the_pool_takes_no_room_from_one_of_what_is_not() -> None:
    room_for_one = Store(host_limit_bytes=20 * 8)
    pool = Pool(40, 4, room_for_one)
    pool.keep("a first talk")
    pool.keep("second talk.")
    while pool.cache.rest():
        pass
    assert pool.kept() == ["second talk."]
    back = pool.acquire("a first talk!")
    assert back is not None
    assert pool.visible(back[0]) == "a first talk"


def test_a_long_one_is_copied_a_piece_at_a_time_and_leaves_after_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(swap, "PIECE_CELLS", 8)
    pool = Pool(60, 4, Store(host_limit_bytes=MIB))
    talk = "a talk of 24 letters, so"
    pool.keep(talk)
    left = []
    for number in range(3):
        acquired = pool.acquire(f"{number} another")
        assert acquired is not None
        left.append(pool.kept() == [])
    assert left == [False, False, True]


def test_of_what_shares_its_beginning_only_the_rest_leaves() -> None:
    pool = Pool(60, 4, Store(host_limit_bytes=MIB))
    running = pool.run("you are kind. who?")
    pool.cache.retire(pool.run("you are kind. what is it?"))
    pool.check()
    assert pool.kept() == []
    assert pool.cache.counts().used == len("you are kind. who?")
    assert pool.visible(running) == "you are kind. who?"


def test_a_pinned_prompt_stays() -> None:
    pool = Pool(60, 4, Store(host_limit_bytes=MIB))
    pool.cache.pin("system", tokens("you are kind."))
    pool.keep("you are kind.")
    pool.run("another talk")
    assert pool.kept() == ["you are kind."]
