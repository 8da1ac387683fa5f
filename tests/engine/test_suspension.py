"""Cells run short: who is suspended, how it comes back, and that nobody is forgotten."""

from __future__ import annotations

import random
from itertools import count

import pytest
from msgspec.structs import replace

from edgekv.core.request import Priority, Request, RequestId, SeqId, Token
from edgekv.core.sequence import Sequence
from edgekv.engine.giving_way import MIN_SHARE
from edgekv.engine.waiting_line import WaitingLine
from edgekv.errors import Overloaded
from edgekv.kv.claims import Rank
from edgekv.kv.store import Store
from tests.engine.driver import Driver, request, tokens
from tests.engine.test_together_equals_alone import LossyStore, answer_alone

BATCH, NORMAL, INTERACTIVE = Priority.BATCH, Priority.NORMAL, Priority.INTERACTIVE


def crowded(num_cells: int = 100, slots: int = 4, store: Store | None = None) -> Driver:
    """An engine that expects answers of one token, so that it admits too many."""
    driver = Driver(num_cells=num_cells, slots=slots, store=store or big_store())
    driver.engine._scheduler._lengths.learn(1)
    return driver


def big_store() -> Store:
    return Store(host_limit_bytes=1_000_000)


def long_answer(name: str, first: int, priority: Priority = NORMAL, length: int = 60) -> Request:
    """A prompt of ten tokens that shares nothing with another one's."""
    prompt = [first] * 10
    return request(name, prompt, length, ignore_end=True, priority=priority)


def running(driver: Driver) -> set[str]:
    return {seq.request.id for seq in driver.engine._scheduler.running.values()}


def until_suspended(driver: Driver) -> None:
    before = driver.engine.snapshot().num_suspensions
    while driver.engine.snapshot().num_suspensions == before:
        driver.step()


def test_all_long_answers_finish_on_cells_for_one_of_them() -> None:
    driver = crowded(num_cells=80, slots=8)
    requests = [long_answer(str(n), n) for n in range(1, 9)]
    driver.finish(*requests)
    assert driver.engine.snapshot().num_suspensions > 0
    for one in requests:
        assert driver.answers[one.id] == answer_alone_in_80(one)


def answer_alone_in_80(one: Request) -> list[int]:
    alone = Driver(num_cells=80, slots=1)
    alone.finish(one)
    return [*alone.answers[one.id]]


def test_the_youngest_is_suspended_and_the_oldest_goes_on() -> None:
    driver = crowded()
    driver.submit(*(long_answer(name, n) for n, name in enumerate("abc", start=1)))
    until_suspended(driver)
    assert running(driver) == {"a", "b"}
    assert driver.engine.snapshot().num_suspended == 1
    driver.finish()


def test_priority_comes_before_age() -> None:
    driver = crowded()
    driver.submit(
        long_answer("old batch", 1, BATCH),
        long_answer("normal", 2),
        long_answer("young interactive", 3, INTERACTIVE),
    )
    until_suspended(driver)
    assert running(driver) == {"normal", "young interactive"}
    driver.finish()


def test_what_was_stored_is_not_computed_again() -> None:
    driver = crowded()
    driver.finish(*(long_answer(name, n) for n, name in enumerate("abc", start=1)))
    snapshot = driver.engine.snapshot()
    assert snapshot.num_suspensions > 0
    assert snapshot.tokens_recomputed < 8 * snapshot.num_suspensions
    assert snapshot.swap_bytes_in > 0
    # Each token is decoded once, but for those too few to be stored.
    necessary = 3 * (10 + 60 - 1)
    assert driver.backend.tokens_decoded == necessary + snapshot.tokens_recomputed


def test_without_a_store_the_tokens_are_computed_again_and_counted() -> None:
    driver = crowded(store=Store())
    driver.finish(*(long_answer(name, n) for n, name in enumerate("abc", start=1)))
    snapshot = driver.engine.snapshot()
    assert snapshot.tokens_recomputed > 0
    assert driver.backend.tokens_decoded == 3 * (10 + 60 - 1) + snapshot.tokens_recomputed


def test_the_caller_hears_nothing_of_a_suspension() -> None:
    driver = crowded()
    driver.finish(*(long_answer(name, n) for n, name in enumerate("abc", start=1)))
    # The driver asserts that each request starts once; prompts are counted once too.
    assert driver.engine.snapshot().prompt_tokens_computed == 3 * 10
    assert driver.engine.snapshot().prompt_tokens_reused == 0


def test_a_suspended_answer_comes_back_before_new_ones_of_its_rank() -> None:
    driver = crowded(slots=3)
    driver.submit(*(long_answer(name, n) for n, name in enumerate("abc", start=1)))
    until_suspended(driver)
    driver.submit(long_answer("new", 4))
    driver.submit(long_answer("urgent", 5, INTERACTIVE, length=1))
    while "c" not in running(driver):
        driver.step()
    assert RequestId("urgent") in driver.started
    assert RequestId("new") not in driver.started
    driver.finish()


def test_a_suspended_request_can_be_cancelled() -> None:
    driver = crowded()
    driver.submit(*(long_answer(name, n) for n, name in enumerate("abc", start=1)))
    until_suspended(driver)
    num_told = len(driver.answers[RequestId("c")])
    driver.cancel("c")
    assert driver.ends[RequestId("c")].num_generated == num_told  # type: ignore[union-attr]
    assert driver.engine.snapshot().num_suspended == 0
    driver.finish()


def test_a_resumed_answer_has_its_share_before_it_is_suspended_again() -> None:
    driver = crowded(num_cells=130)
    driver.submit(*(long_answer(name, n, length=40) for n, name in enumerate("abcd", start=1)))
    until_suspended(driver)
    assert running(driver) == {"a", "b", "c"}
    driver.cancel("b")
    driver.cancel("c")
    driver.step()
    assert running(driver) == {"a", "d"}
    driver.submit(request("urgent", range(100, 125), 60, ignore_end=True, priority=INTERACTIVE))
    until_suspended(driver)
    # Not d, which is younger than a but has just come back.
    assert running(driver) == {"d", "urgent"}
    driver.finish()


def test_a_suspended_answer_loses_nothing_to_conversations_that_end_meanwhile() -> None:
    """The store holds one long answer and a little more, 8 bytes a cell."""
    driver = crowded(num_cells=100, slots=2, store=Store(host_limit_bytes=700))
    driver.submit(long_answer("a", 1, length=80), long_answer("b", 2, length=80))
    until_suspended(driver)
    assert running(driver) == {"a"}
    for number in range(10, 16):
        name = f"short {number}"
        driver.submit(request(name, [number] * 20, 1, priority=INTERACTIVE))
        while RequestId(name) not in driver.ends:
            driver.step()
    driver.finish()
    assert driver.engine.snapshot().tokens_recomputed == 0


@pytest.mark.parametrize("ends", ["finish", "cancel"])
def test_nothing_stays_claimed_once_nothing_is_suspended(ends: str) -> None:
    store = big_store()
    driver = crowded(store=store)
    driver.submit(*(long_answer(name, n) for n, name in enumerate("abc", start=1)))
    until_suspended(driver)
    assert any(entry.claims for entry in store.entries())
    for name in "abc" if ends == "cancel" else "":
        driver.cancel(name)
    driver.finish()
    assert not any(entry.claims for entry in store.entries())


def test_the_work_of_swapping_is_bounded_by_what_is_answered() -> None:
    """However tight it is, a resumed answer grows by its share before it has to go again."""
    driver = crowded(num_cells=80, slots=8)
    driver.finish(*(long_answer(str(n), n) for n in range(1, 9)))
    snapshot = driver.engine.snapshot()
    assert snapshot.tokens_recomputed == 0
    assert snapshot.num_suspensions <= 8 + snapshot.tokens_generated // MIN_SHARE


def test_those_that_began_an_answer_come_before_older_ones_that_did_not() -> None:
    line = WaitingLine()
    for name in ("old", "suspended"):
        line.submit(request(name, [1]))
    entry = line.leave(RequestId("suspended"))
    assert entry is not None
    seq = Sequence(entry.request, SeqId(0), [*entry.tokens, Token(5)], 1)
    seq.arrival, seq.rank = entry.arrival, entry.rank
    line.suspend(seq, Store().claim(seq.tokens, Rank.SUSPENDED))
    line.submit(request("urgent", [1], priority=INTERACTIVE))
    assert [e.request.id for e in line.in_order()] == ["urgent", "suspended", "old"]


def test_interactive_requests_start_first_and_batch_last() -> None:
    driver = Driver(slots=1)
    driver.submit(request("runs", [9], 3, ignore_end=True))
    driver.step()
    for name, priority in (("batch", BATCH), ("normal", NORMAL), ("interactive", INTERACTIVE)):
        driver.submit(request(name, [1], 1, priority=priority))
    driver.finish()
    assert list(driver.started) == ["runs", "interactive", "normal", "batch"]


def test_batch_requests_never_starve() -> None:
    driver = Driver(slots=1)
    driver.submit(request("batch", [1], 1, priority=BATCH))
    numbers = count()
    while RequestId("batch") not in driver.started:
        for _ in range(2):
            name = f"interactive {next(numbers)}"
            driver.submit(request(name, [2], 1, priority=INTERACTIVE))
        driver.step()
        assert len(driver.started) < 100
    driver.finish()


def test_a_full_queue_refuses_with_how_many_wait() -> None:
    driver = Driver(slots=2, max_waiting=3)
    driver.submit(*(request(str(n), [n + 1]) for n in range(5)))
    with pytest.raises(Overloaded) as caught:
        driver.engine.submit(request("one too many", [1]))
    assert caught.value.num_waiting == 5
    driver.submit(replace(request("was under way", [1]), generated=tokens([2])))
    driver.finish()
    driver.finish(request("later", [1]))


@pytest.mark.parametrize("seed", range(100))
def test_under_pressure_together_equals_alone(seed: int) -> None:
    rng = random.Random(seed)
    store = rng.choice([big_store(), Store(host_limit_bytes=400), Store(), LossyStore(rng, 2_000)])
    driver = crowded(rng.choice([52, 60]), rng.choice([4, 16]), store)
    system = [rng.randint(1, 50) for _ in range(rng.choice([0, 6, 12]))]
    requests = [
        request(
            str(n),
            [*system, *(rng.randint(1, 50) for _ in range(rng.randint(1, 10)))],
            rng.randint(10, 30),
            seed=rng.choice([None, 1]),
            ignore_end=True,
            priority=rng.choice(list(Priority)),
        )
        for n in range(10)
    ]
    driver.submit(*requests)
    for _ in range(rng.randint(0, 40)):
        driver.step()
    if rng.random() < 0.3:
        driver.cancel(str(rng.randrange(10)))
    driver.finish()
    for one in requests:
        answer = driver.answers[one.id]
        assert answer == answer_alone(one)[0][: len(answer)]
