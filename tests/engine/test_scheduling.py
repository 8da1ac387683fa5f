"""Who starts, who waits, and what a step is made of."""

from __future__ import annotations

from collections.abc import Sequence

from edgekv.core.request import RequestId, SeqId, Token
from edgekv.engine.scheduler import LOOKAHEAD, MAX_OVERTAKES
from edgekv.kv.cell_cache import Acquired
from tests.engine.driver import Driver, request

LONG = range(100, 160)


def plan_of(driver: Driver) -> dict[SeqId, int]:
    """Tokens a sequence would get in the next step."""
    return {p.seq_id: len(p.tokens) for p in driver.engine._scheduler.plan().slices}


def seq_id_of(driver: Driver, name: str) -> SeqId:
    return driver.engine._attached[RequestId(name)]


def test_a_long_prompt_never_delays_an_answer_that_is_under_way() -> None:
    driver = Driver(slots=2, batch_tokens=8)
    driver.submit(request("answer", [1], max_tokens=20, ignore_end=True))
    driver.step()
    driver.submit(request("long", LONG))
    for length in range(2, 9):
        driver.step()
        assert len(driver.answers[RequestId("answer")]) == length
    assert not driver.answers[RequestId("long")]


def test_every_answer_gets_its_token_in_every_step_even_when_they_fill_the_batch() -> None:
    driver = Driver(slots=4, batch_tokens=4)
    names = ["a", "b", "c"]
    driver.submit(*(request(n, [i + 1], 9, ignore_end=True) for i, n in enumerate(names)))
    driver.step()
    driver.submit(request("long", LONG))
    driver.step()
    plan = plan_of(driver)
    assert all(plan[seq_id_of(driver, name)] == 1 for name in names)
    assert plan[seq_id_of(driver, "long")] == 1


def test_a_short_prompt_goes_first_but_the_oldest_keeps_its_part() -> None:
    driver = Driver(slots=4, batch_tokens=16)
    driver.submit(request("long", LONG))
    driver.step()
    driver.submit(request("short", range(1, 13)), request("other", range(20, 60)))
    driver.step()
    # Both new ones started together; the step before this plan gave 12 + 4 tokens.
    assert driver.answers[RequestId("short")]
    computed = {s.request.id: s.num_computed for s in driver.engine._scheduler.running.values()}
    assert computed[RequestId("long")] == 16 + 4
    assert computed[RequestId("other")] == 0


def test_a_step_is_never_larger_than_the_batch() -> None:
    driver = Driver(slots=4, batch_tokens=10)
    driver.submit(*(request(str(n), range(n * 20 + 1, n * 20 + 20)) for n in range(4)))
    driver.step()
    assert sum(plan_of(driver).values()) == 10


def test_a_short_request_uses_the_room_a_long_one_cannot() -> None:
    driver = Driver(num_cells=70, slots=3)
    driver.submit(
        request("runs", [1], max_tokens=20, ignore_end=True),
        request("long", LONG),
        request("short", [2]),
    )
    driver.step()
    assert set(driver.started) == {RequestId("runs"), RequestId("short")}
    driver.finish()
    assert RequestId("long") in driver.started


def test_a_long_request_is_overtaken_only_so_often() -> None:
    driver = Driver(num_cells=70, slots=3)
    driver.submit(request("runs", [1], max_tokens=60, ignore_end=True), request("long", LONG))
    for number in range(3 * MAX_OVERTAKES):
        driver.submit(request(str(number), [2], max_tokens=1))
    while RequestId("long") not in driver.started:
        driver.step()
    assert list(driver.started).index(RequestId("long")) == 1 + MAX_OVERTAKES
    driver.finish()


def test_a_step_looks_past_a_bounded_number_of_requests() -> None:
    driver = Driver(num_cells=70, slots=3)
    driver.submit(request("runs", [1], max_tokens=20, ignore_end=True))
    driver.submit(*(request(f"long {n}", [n, *LONG]) for n in range(LOOKAHEAD)))
    driver.submit(request("short", [2]))
    driver.step()
    assert set(driver.started) == {RequestId("runs")}
    driver.cancel("long 0")
    driver.step()
    assert set(driver.started) == {RequestId("runs"), RequestId("short")}
    driver.finish()


def test_a_request_that_does_not_fit_is_not_looked_at_again_before_something_ends() -> None:
    driver = Driver(num_cells=70, slots=3)
    driver.submit(request("runs", [1], max_tokens=20, ignore_end=True), request("long", LONG))
    driver.step()
    asked = asking_for_room(driver)
    for _ in range(5):
        driver.step()
    assert not asked
    driver.cancel("runs")
    driver.step()
    assert len(asked) == 1
    driver.finish()


def asking_for_room(driver: Driver) -> list[int]:
    """The lengths of the prompts that ask for cells from now on, as they do."""
    cache, asked = driver.engine._cache, list[int]()
    acquire = cache.acquire

    def noted(tokens: Sequence[Token], expected: int) -> Acquired | None:
        asked.append(len(tokens))
        return acquire(tokens, expected)

    cache.acquire = noted  # type: ignore[method-assign]
    return asked


def test_one_that_waits_for_a_prefix_starts_as_soon_as_that_prefix_is_there() -> None:
    driver = Driver(slots=2, batch_tokens=8)
    driver.submit(request("leader", range(1, 41)), request("follower", [*range(1, 17), 99]))
    driver.step()
    driver.step()
    assert RequestId("follower") not in driver.started
    driver.step()
    assert driver.started[RequestId("follower")].num_reused == 16
    assert not driver.answers[RequestId("leader")]
    driver.finish()


def test_a_burst_with_one_prefix_begins_its_answers_together() -> None:
    """An answer under way would cut the others' prompts into small parts."""
    driver = Driver(batch_tokens=80)
    names = [RequestId(str(number)) for number in range(4)]
    driver.submit(*(request(name, [*range(1, 33), *[40 + int(name)] * 20]) for name in names))
    driver.step()
    assert set(driver.started) == {names[0]}
    driver.step()
    assert [len(driver.answers[name]) for name in names] == [1, 1, 1, 1]
    driver.finish()


def test_strangers_do_not_wait_behind_a_burst() -> None:
    driver = Driver(slots=3, batch_tokens=8)
    driver.submit(
        request("leader", range(1, 41)),
        request("follower", [*range(1, 40), 99]),
        request("stranger", [77]),
    )
    driver.step()
    assert set(driver.started) == {RequestId("leader"), RequestId("stranger")}
    driver.finish()
