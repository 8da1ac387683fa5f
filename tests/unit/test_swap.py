"""Cells that leave the pool for the store, and come back."""

from __future__ import annotations

import pytest

from edgekv.core.batch import BatchPlan, BatchSlice, DecodeStatus
from edgekv.core.request import RequestId, SeqId
from edgekv.kv import swap
from edgekv.kv.cell_cache import Acquired, CellCounts
from edgekv.kv.store import Store
from edgekv.kv.unshared_cache import UnsharedCache
from tests.cell_backend import CellBackend
from tests.engine.driver import Driver, request
from tests.unit.test_prefix_cache import Pool, tokens

SYSTEM = "system: "
LONG = "abcdefghijklmnopqrst"
MORE = "0123456789"


def stored_pool(num_cells: int = 60, num_seqs: int = 3) -> tuple[Pool, Store]:
    store = Store(host_limit_bytes=100_000)
    return Pool(num_cells, num_seqs, store), store


def acquired(pool: Pool, prompt: str) -> Acquired:
    result = pool.cache.acquire(tokens(prompt), len(prompt))
    assert result is not None
    pool.check()
    return result


def spans(store: Store) -> list[tuple[int, int]]:
    return [(entry.start, entry.end) for entry in store.entries()]


def test_a_suspended_sequence_gives_back_its_cells_and_finds_them_again() -> None:
    pool, _ = stored_pool()
    pool.cache.suspend(pool.run(LONG))
    pool.check()
    assert pool.cache.counts() == CellCounts(used=0, shared=0, kept=0, reserved=0)
    again = acquired(pool, LONG + "!")
    assert (again.num_reused, again.num_restored) == (0, len(LONG))
    assert pool.visible(again.seq_id) == LONG


def test_only_what_it_alone_holds_is_stored_and_the_shared_prefix_stays() -> None:
    pool, store = stored_pool()
    pool.run(SYSTEM + "?")
    pool.cache.suspend(pool.run(SYSTEM + LONG))
    assert spans(store) == [(len(SYSTEM), len(SYSTEM + LONG))]
    assert pool.cache.counts().used == len(SYSTEM + "?")
    again = acquired(pool, SYSTEM + LONG + "!")
    assert (again.num_reused, again.num_restored) == (len(SYSTEM), len(LONG))


def test_a_second_suspension_stores_only_what_is_new() -> None:
    pool, store = stored_pool()
    pool.cache.suspend(pool.run(LONG))
    pool.cache.suspend(pool.run(LONG + MORE))
    assert spans(store) == [(0, len(LONG)), (len(LONG), len(LONG + MORE))]
    assert acquired(pool, LONG + MORE + "!").num_restored == len(LONG + MORE)


def test_an_evicted_sequence_goes_to_the_store() -> None:
    pool, store = stored_pool(num_cells=24)
    pool.keep(LONG)
    pool.run(MORE)
    assert pool.kept() == []
    assert spans(store) == [(0, len(LONG))]


def test_what_a_branch_cuts_off_goes_to_the_store() -> None:
    pool, store = stored_pool(num_seqs=1)
    pool.keep(LONG)
    pool.run(LONG[:5] + "!")
    assert spans(store) == [(5, len(LONG))]


def test_cells_that_cannot_be_trusted_are_not_stored() -> None:
    pool, store = stored_pool()
    pool.cache.evict(pool.run(LONG), len(LONG) + 3)
    assert store.entries() == []


def test_few_cells_are_not_worth_storing() -> None:
    pool, store = stored_pool()
    pool.cache.suspend(pool.run(LONG[: swap.FEWEST_CELLS - 1]))
    assert store.entries() == []


def test_a_long_sequence_moves_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swap, "PIECE_CELLS", 10)
    pool, store = stored_pool()
    pool.cache.suspend(pool.run(LONG + MORE))
    assert spans(store) == [(0, 10), (10, 20), (20, 30)]
    assert acquired(pool, LONG + MORE + "!").num_restored == 30


def test_a_copy_is_loaded_as_far_as_there_is_room() -> None:
    pool, _ = stored_pool(num_cells=24)
    pool.cache.suspend(pool.run(LONG))
    other = pool.run("XYZ--")
    assert acquired(pool, LONG[:12]).num_restored == 0
    pool.cache.suspend(other)
    assert pool.cache.room() == 24


def test_nobody_waits_for_what_the_store_has() -> None:
    pool, _ = stored_pool()
    slow = acquired(pool, LONG + MORE)
    assert pool.cache.promised(tokens(LONG + "!")) is not None
    pool.cache.suspend(pool.run(LONG + "?"))
    assert pool.cache.promised(tokens(LONG + "!")) is None
    pool.cache.evict(slow.seq_id, 0)
    first = acquired(pool, LONG[:10] + MORE)
    assert first.num_restored == 10
    promise = pool.cache.promised(tokens(LONG[:10] + MORE[:5] + "!"))
    assert promise is not None
    assert (promise.holder, promise.length) == (first.seq_id, 15)


def test_when_idle_a_kept_sequence_is_copied_once_and_stays() -> None:
    pool, store = stored_pool()
    pool.keep(LONG)
    while pool.cache.rest():
        pool.check()
    assert spans(store) == [(0, len(LONG))]
    assert pool.kept() == [LONG]
    assert not pool.cache.rest()


def test_kept_sequences_but_the_last_leave_half_of_the_pool_to_the_running() -> None:
    pool, store = stored_pool(num_cells=40)
    pool.keep(LONG + "!")
    assert pool.kept() == [LONG + "!"]
    pool.keep(MORE)
    assert pool.kept() == [MORE]
    assert spans(store) == [(0, len(LONG + "!"))]


def test_without_host_memory_what_is_kept_stays_until_the_room_is_needed() -> None:
    pool = Pool(40, 3)
    pool.keep(LONG)
    pool.keep(MORE)
    assert pool.kept() == [LONG, MORE]


def compute(backend: CellBackend, cache: UnsharedCache, prompt: str) -> tuple[SeqId, int]:
    """Acquire and compute a whole prompt; the id, and what it did not need to compute."""
    result = cache.acquire(tokens(prompt), len(prompt))
    assert result is not None
    rest = tuple(tokens(prompt)[result.num_known :])
    plan = BatchPlan((BatchSlice(result.seq_id, result.num_known, rest, False),))
    assert backend.decode(plan) is DecodeStatus.DONE
    cache.advance(result.seq_id, rest)
    cache.check_integrity()
    return result.seq_id, result.num_known


def test_a_model_without_a_past_goes_on_only_from_a_whole_state() -> None:
    store = Store(host_limit_bytes=100_000)
    backend = CellBackend(60, 2)
    cache = UnsharedCache(backend, num_cells=60, num_seqs=2, store=store)
    seq_id, _ = compute(backend, cache, LONG)
    cache.retire(seq_id)
    assert spans(store) == [(0, len(LONG))]
    branch, num_known = compute(backend, cache, LONG[:-1] + "!")
    assert num_known == 0
    cache.evict(branch, len(LONG))
    seq_id, num_known = compute(backend, cache, LONG + MORE)
    assert num_known == len(LONG)
    cache.suspend(seq_id)
    assert compute(backend, cache, LONG + MORE + "!")[1] == len(LONG + MORE)


def test_a_model_without_a_past_keeps_a_copy_where_prompts_were_seen_to_part() -> None:
    driver = Driver(num_cells=200, slots=1, sharing=False, store=Store(host_limit_bytes=100_000))
    system = range(100, 140)
    known = []
    for number in (1, 2, 3):
        driver.finish(request(str(number), [*system, number, number], max_tokens=1))
        known.append(driver.started[RequestId(str(number))].num_reused)
    assert known == [0, 0, len(system)]
