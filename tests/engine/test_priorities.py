"""What a priority is worth: who starts, who gives way for whom, and that nobody starves."""

from __future__ import annotations

import random
from itertools import count

import pytest

from bench.priorities import CELLS, SLOTS, load
from edgekv.core.events import Finished, Sampled
from edgekv.core.request import Priority, Request, RequestId
from edgekv.engine.engine import Engine, Limits
from edgekv.engine.giving_way import MIN_SHARE
from edgekv.engine.waiting_line import OVERTAKES_A_TURN
from edgekv.kv.store import Store
from edgekv.traffic.advice import percentile
from tests.cell_backend import CellBackend
from tests.engine.driver import Driver, request
from tests.engine.test_together_equals_alone import answer_alone

BATCH, NORMAL, INTERACTIVE = Priority.BATCH, Priority.NORMAL, Priority.INTERACTIVE


def big_store() -> Store:
    return Store(host_limit_bytes=1_000_000)


def endless(name: str, first: int, priority: Priority = BATCH, length: int = 60) -> Request:
    """A prompt of ten tokens that shares nothing with another one's, and a long answer."""
    return request(name, [first] * 10, length, ignore_end=True, priority=priority)


def running(driver: Driver) -> set[str]:
    return {seq.request.id for seq in driver.engine._scheduler.running.values()}


def busy(num_cells: int = 400, slots: int = 3, store: Store | None = None) -> Driver:
    """Every slot is taken by an answer of the lowest priority."""
    driver = Driver(num_cells=num_cells, slots=slots, store=store or big_store())
    driver.submit(*(endless(f"batch {n}", n + 1) for n in range(slots)))
    driver.step()
    return driver


def test_an_important_request_does_not_wait_for_a_slot_that_a_lesser_one_has() -> None:
    driver = busy()
    driver.submit(request("urgent", [50], 3, ignore_end=True, priority=INTERACTIVE))
    driver.step()
    assert len(driver.answers[RequestId("urgent")]) == 1
    assert running(driver) == {"batch 0", "batch 1", "urgent"}
    driver.finish()
    assert driver.engine.snapshot().tokens_recomputed == 0


def test_an_important_request_does_not_wait_for_cells_that_lesser_ones_have() -> None:
    driver = Driver(num_cells=100, slots=8, store=big_store())
    driver.submit(endless("batch 0", 1, length=30), endless("batch 1", 2, length=30))
    driver.step()
    driver.submit(request("urgent", range(100, 150), 10, priority=INTERACTIVE))
    driver.step()
    assert driver.answers[RequestId("urgent")]
    assert driver.engine.snapshot().num_suspensions == 1
    driver.finish()


def test_normal_requests_come_before_batch_and_behind_interactive_ones() -> None:
    driver = busy(slots=2)
    driver.submit(endless("normal", 50, NORMAL), endless("urgent", 51, INTERACTIVE))
    driver.step()
    assert running(driver) == {"normal", "urgent"}
    driver.submit(endless("urgent too", 52, INTERACTIVE))
    driver.step()
    assert running(driver) == {"urgent", "urgent too"}
    driver.finish()


@pytest.mark.parametrize("priority", list(Priority))
def test_nobody_gives_way_to_an_equal(priority: Priority) -> None:
    driver = Driver(slots=2, store=big_store())
    driver.submit(endless("a", 1, priority), endless("b", 2, priority))
    driver.step()
    driver.submit(endless("c", 3, priority))
    driver.step()
    assert running(driver) == {"a", "b"}
    driver.finish()
    assert not driver.engine.snapshot().num_suspensions


def test_nobody_gives_way_where_that_would_not_be_enough() -> None:
    """Of 100 cells the normal request has about 40, the other about 30, and 80 are wanted."""
    driver = Driver(num_cells=100, slots=3, store=big_store())
    driver.submit(endless("urgent", 1, INTERACTIVE, length=30), endless("batch", 2, length=20))
    driver.step()
    driver.submit(request("long", range(100, 170), 10, priority=INTERACTIVE))
    driver.step()
    assert running(driver) == {"urgent", "batch"}
    driver.finish()
    assert not driver.engine.snapshot().num_suspensions


def test_who_waits_for_a_prefix_takes_nobodys_slot_meanwhile() -> None:
    driver = Driver(slots=2, batch_tokens=8, store=big_store())
    driver.submit(endless("batch", 1), request("leader", range(100, 140), 4, priority=INTERACTIVE))
    driver.step()
    driver.submit(request("follower", [*range(100, 139), 7], 4, priority=INTERACTIVE))
    driver.step()
    assert running(driver) == {"batch", "leader"}
    assert not driver.engine.snapshot().num_suspensions
    driver.finish()
    assert driver.started[RequestId("follower")].num_reused == 39


def test_a_lesser_request_that_computes_what_an_important_one_waits_for_is_as_important() -> None:
    driver = Driver(slots=4, batch_tokens=8)
    driver.submit(request("leader", range(100, 140), 4, priority=BATCH))
    driver.step()
    driver.submit(
        request("follower", [*range(100, 139), 7], 4, priority=INTERACTIVE),
        *(request(f"normal {n}", [n + 1] * 30, 4) for n in range(2)),
    )
    for _ in range(5):
        driver.step()
    assert RequestId("follower") in driver.started
    assert not driver.answers[RequestId("normal 0")]
    driver.finish()


def test_prompts_of_a_step_come_by_priority_and_then_by_length() -> None:
    driver = Driver(slots=4, batch_tokens=16)
    driver.submit(
        request("oldest", [1] * 60, priority=BATCH),
        request("short", [2] * 10, priority=BATCH),
        request("long", [3] * 30, priority=INTERACTIVE),
        request("longer", [4] * 40, priority=INTERACTIVE),
    )
    driver.step()
    computed = {s.request.id: s.num_computed for s in driver.engine._scheduler.running.values()}
    assert computed == {"oldest": 0, "short": 0, "long": 16, "longer": 0}
    driver.finish()


def test_of_a_stream_of_important_requests_one_start_in_so_many_goes_to_the_oldest_other() -> None:
    """And the one that has its turn is not suspended for the next important one."""
    driver = Driver(slots=2, store=big_store())
    driver.submit(endless("long batch", 80, length=90), endless("normal", 81, NORMAL, length=2))
    driver.submit(endless("young batch", 82, length=2))
    numbers = count()
    while len(driver.ends) < 4 * OVERTAKES_A_TURN:
        while driver.engine.snapshot().num_waiting < 6:
            number = next(numbers)
            prompt = [number % 70 + 1]
            driver.submit(request(f"urgent {number}", prompt, 2, priority=INTERACTIVE))
        driver.step()
    order = list(driver.started)
    turns = [order.index(RequestId(name)) for name in ("long batch", "normal", "young batch")]
    assert turns == [OVERTAKES_A_TURN * n + n - 1 for n in (1, 2, 3)]
    assert driver.engine.snapshot().num_suspensions == 0
    driver.finish()


@pytest.mark.parametrize("seed", range(4))
def test_nobody_starves_behind_a_stream_of_important_requests(seed: int) -> None:
    """Whatever the others are, long or short, and however little room there is."""
    rng = random.Random(seed)
    slots, num_others = rng.choice([1, 2, 4]), 4
    driver = Driver(num_cells=rng.choice([70, 200]), slots=slots, store=big_store())
    others = [
        endless(f"other {n}", 80 + n, rng.choice([BATCH, NORMAL]), rng.randint(1, 60))
        for n in range(num_others)
    ]
    driver.submit(*others)
    numbers = count()
    while not all(one.id in driver.ends for one in others):
        while driver.engine.snapshot().num_waiting < num_others + 2:
            number = next(numbers)
            prompt = [number % 70 + 1] * rng.randint(1, 30)
            driver.submit(
                request(f"urgent {number}", prompt, rng.randint(1, 9), priority=INTERACTIVE)
            )
        driver.step()
        # The turns of all of them, and what else starts while the last one writes.
        assert len(driver.started) <= num_others * (OVERTAKES_A_TURN + 1) + slots * 60
    driver.finish()


@pytest.mark.parametrize("limit", [0, 1_000_000])
def test_an_answer_that_gives_way_again_and_again_still_gets_on(limit: int) -> None:
    """Its work is never lost more than once over, also where there is no place for copies."""
    driver = Driver(slots=1, store=Store(host_limit_bytes=limit))
    driver.submit(request("batch", range(1, 60), 120, ignore_end=True, priority=BATCH))
    for number in range(400):
        if RequestId("batch") in driver.ends:
            break
        if driver.engine.snapshot().num_waiting == 0:
            driver.submit(request(str(number), [80], 1, priority=INTERACTIVE))
        driver.step()
    assert RequestId("batch") in driver.ends
    snapshot = driver.engine.snapshot()
    assert 0 < snapshot.num_suspensions <= 1 + 120 // MIN_SHARE
    assert snapshot.tokens_recomputed <= (59 + 120 if not limit else 0)


def test_a_prompt_that_gave_way_is_counted_once() -> None:
    driver = Driver(slots=1, batch_tokens=8, store=Store())
    driver.submit(request("batch", range(1, 40), 2, priority=BATCH))
    driver.step()
    driver.finish(request("urgent", [50], 1, priority=INTERACTIVE))
    snapshot = driver.engine.snapshot()
    assert snapshot.num_suspensions == 1
    assert snapshot.prompt_tokens_computed == 39 + 1
    assert snapshot.tokens_recomputed == 8


def first_tokens(requests: list[Request]) -> dict[RequestId, int]:
    """How many tokens had been decoded when each answer began, all of them asked for at once."""
    backend = CellBackend(CELLS, SLOTS + 4, batch_tokens=512)
    limits = Limits(SLOTS, context_length=2048, batch_tokens=512)
    engine = Engine(backend, limits, end_tokens=frozenset(), store=big_store())
    for one in requests:
        engine.submit(one)
    began: dict[RequestId, int] = {}
    num_ended = 0
    while not engine.is_idle:
        for event in engine.step():
            if isinstance(event, Sampled):
                began.setdefault(event.request_id, backend.tokens_decoded)
            num_ended += isinstance(event, Finished)
    assert num_ended == len(requests)
    assert engine.snapshot().tokens_recomputed == 0
    return began


def test_a_burst_of_all_priorities_is_answered_in_their_order() -> None:
    """The load of `bench/priorities.py`, in tokens instead of seconds.

    Nothing could be better than to read the 22 interactive prompts first. They are 3,300 tokens of
    14,500 in all, so the next to last would begin at 0.21 of what the batch ones wait. But 16 have
    slots, so the last six begin when six others have ended: some 60 steps of 16 answers later, and
    one in 16 starts is somebody else's. That makes 0.31.
    """
    requests = [
        request(
            str(asked.number),
            [1] * 24 + [asked.number * 1000 + n for n in range(asked.num_words + 10)],
            asked.num_tokens,
            ignore_end=True,
            priority=asked.priority,
        )
        for asked in load(64)
    ]
    began = first_tokens(requests)

    def wait(priority: Priority) -> float:
        waits = [float(began[one.id]) for one in requests if one.priority is priority]
        return percentile(waits, 95)

    assert wait(INTERACTIVE) < 0.32 * wait(BATCH)
    assert wait(INTERACTIVE) < 0.5 * wait(NORMAL)


@pytest.mark.parametrize("seed", range(20))
def test_priorities_change_when_an_answer_comes_but_not_what_it_says(seed: int) -> None:
    rng = random.Random(seed)
    driver = Driver(
        num_cells=rng.choice([52, 70, 200]),
        slots=rng.choice([1, 2, 4]),
        batch_tokens=rng.choice([4, 16]),
        sharing=rng.random() < 0.8,
        store=rng.choice([big_store(), Store()]),
    )
    requests = [
        request(
            str(n),
            [rng.randint(1, 3) for _ in range(rng.randint(1, 20))],
            rng.randint(1, 30),
            ignore_end=True,
            priority=rng.choice(list(Priority)),
        )
        for n in range(20)
    ]
    for one in requests:
        driver.submit(one)
        for _ in range(rng.randint(0, 12)):
            driver.step()
    driver.finish()
    snapshot = driver.engine.snapshot()
    assert snapshot.num_suspensions <= 20 * 4 + snapshot.tokens_generated // MIN_SHARE
    known = snapshot.prompt_tokens_reused + snapshot.prompt_tokens_restored
    assert snapshot.prompt_tokens_computed + known == sum(len(one.prompt) for one in requests)
    for one in requests:
        assert driver.answers[one.id] == answer_alone(one)[0]
