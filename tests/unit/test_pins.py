"""Pinned prompts: given up after everything else, and taken up again."""

from __future__ import annotations

import pytest

from edgekv.core.inspection import PinnedRun
from edgekv.errors import InvalidValue, Unavailable
from edgekv.kv.store import Store
from edgekv.kv.unshared_cache import UnsharedCache
from tests.cell_backend import CellBackend
from tests.unit.test_prefix_cache import Pool, tokens

SYSTEM = "you are kind. "


def pinned_pool(num_cells: int = 60, num_seqs: int = 4, store: Store | None = None) -> Pool:
    pool = Pool(num_cells, num_seqs, store)
    pool.cache.pin("system", tokens(SYSTEM))
    pool.keep(SYSTEM)
    return pool


def num_held(pool: Pool) -> int:
    [pin] = pool.cache.view().pinned
    return pin.num_held


def test_a_pinned_prompt_outlives_conversations_that_ended_later() -> None:
    pool = pinned_pool()
    for number in range(10):
        pool.keep(f"{number}" * 20)
    assert pool.kept()[-1] == SYSTEM
    assert pool.cache.view().pinned == (PinnedRun("system", len(SYSTEM), len(SYSTEM)),)


def test_a_pinned_prompt_is_shared_and_stays() -> None:
    pool = pinned_pool()
    first, second = pool.acquire(SYSTEM + "a"), pool.acquire(SYSTEM + "b")
    assert first is not None
    assert second is not None
    assert first[1] == second[1] == len(SYSTEM)
    assert pool.kept() == [SYSTEM]


def test_a_running_answer_gets_the_room_of_a_pinned_prompt_if_there_is_no_other() -> None:
    pool = pinned_pool(num_cells=30)
    pool.keep("x" * 10)
    running = pool.run("z" * 10)
    assert pool.kept() == [SYSTEM]
    pool.compute(running, "z" * 20)
    assert num_held(pool) == 0


def test_a_pin_that_was_given_up_is_held_again_once_its_cells_are_back() -> None:
    pool = pinned_pool(num_cells=30)
    running = pool.run("z" * 30)
    assert num_held(pool) == 0
    pool.cache.retire(running)
    pool.keep(SYSTEM + "hello")
    pool.keep("x" * 10)
    assert pool.kept()[-1] == SYSTEM


def test_a_pinned_prompt_without_an_id_of_its_own_does_not_stop_anybody() -> None:
    pool = pinned_pool(num_seqs=1)
    assert pool.acquire("other") is not None


def test_what_is_pinned_comes_back_from_the_store_although_all_else_was_dropped() -> None:
    store = Store(host_limit_bytes=400)
    pool = pinned_pool(num_cells=30, store=store)
    for letter in "zabcdef":
        pool.keep(letter * 30)
    assert num_held(pool) == 0
    acquired = pool.acquire(SYSTEM + "!")
    assert acquired is not None
    assert acquired[1] == len(SYSTEM)


def test_pins_may_have_half_of_the_pool_together() -> None:
    pool = Pool(40, 4)
    pool.cache.pin("first", tokens("x" * 12))
    with pytest.raises(InvalidValue, match=r"'second'.*24 cells.*20, half of the pool"):
        pool.cache.pin("second", tokens("y" * 12))
    pool.cache.pin("same beginning", tokens("x" * 12 + "y" * 8))


def test_a_model_that_cannot_share_refuses_a_pin_and_says_why() -> None:
    cache = UnsharedCache(CellBackend(40, 2), num_cells=40, num_seqs=2)
    with pytest.raises(Unavailable, match=r"'system' cannot be pinned.*leave out --warm"):
        cache.pin("system", tokens(SYSTEM))
