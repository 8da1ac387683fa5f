"""Models without a past: whole states are copied where prompts part, and used from there."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from edgekv.core.request import Request, RequestId
from edgekv.kv.store import Store
from edgekv.kv.unshared_cache import FEWEST_BEFORE_CHECKPOINT, NO_COPIES, NOTE
from tests.engine.driver import Driver, request
from tests.engine.test_together_equals_alone import LossyStore

SYSTEM = range(100, 100 + FEWEST_BEFORE_CHECKPOINT + 8)


def unshared(store: Store | None = None, num_cells: int = 400, slots: int = 4) -> Driver:
    store = store or Store(host_limit_bytes=1_000_000)
    return Driver(sharing=False, store=store, num_cells=num_cells, slots=slots)


def chat(name: str, question: list[int], max_tokens: int = 3) -> Request:
    prompt = [*SYSTEM, *question]
    asked = request(name, prompt, max_tokens, ignore_end=True)
    return replace(asked, branches=(len(SYSTEM), len(prompt) - 2))


def num_known(driver: Driver, name: str) -> int:
    return driver.started[RequestId(name)].num_reused


def test_the_second_conversation_goes_on_from_the_end_of_the_instructions() -> None:
    driver = unshared()
    driver.finish(chat("first", [1] * 5), chat("second", [2] * 5))
    assert num_known(driver, "second") == len(SYSTEM)


def test_an_answer_that_is_asked_for_again_goes_on_from_the_end_of_the_question() -> None:
    driver = unshared()
    driver.finish(chat("first", [1] * 50))
    driver.finish(chat("again", [1] * 50))
    assert num_known(driver, "again") == len(SYSTEM) + 48


def test_several_answers_to_one_question_compute_it_once() -> None:
    driver = unshared(num_cells=2000, slots=4)
    driver.finish(*(chat(str(n), [1] * 50, 1) for n in range(4)))
    whole = len(SYSTEM) + 50
    assert driver.backend.tokens_decoded == whole + 3 * 2


def test_where_two_texts_were_seen_to_part_the_third_goes_on() -> None:
    driver = unshared()
    for number in (1, 2, 3):
        driver.finish(request(str(number), [*SYSTEM, number, number], max_tokens=1))
    assert [num_known(driver, str(n)) for n in (1, 2, 3)] == [0, 0, len(SYSTEM)]


def test_a_copy_that_would_save_little_is_not_made() -> None:
    store = Store(host_limit_bytes=1_000_000)
    driver = unshared(store)
    short = replace(request("short", range(20), 1, ignore_end=True), branches=(10, 18))
    driver.finish(short)
    assert [entry.end for entry in store.entries()] == [20]


def test_what_can_be_used_again_is_said_and_what_cannot() -> None:
    assert unshared().engine.view().note == NOTE
    assert unshared(Store()).engine.view().note == NO_COPIES


@pytest.mark.parametrize("seed", range(30))
def test_copies_where_prompts_part_never_change_an_answer(seed: int) -> None:
    rng = random.Random(seed)
    store = rng.choice([Store(host_limit_bytes=1_000_000), LossyStore(rng, 4_000)])
    driver = unshared(store, num_cells=rng.choice([150, 400]), slots=rng.choice([2, 4]))
    beginnings = [[rng.randint(1, 90) for _ in range(rng.randint(30, 60))] for _ in range(2)]
    requests = []
    for number in range(8):
        prompt = [*rng.choice(beginnings), *(rng.randint(1, 90) for _ in range(rng.randint(1, 9)))]
        places = rng.sample(range(1, len(prompt)), 3)
        asked = request(str(number), prompt, rng.randint(1, 12), ignore_end=True)
        requests.append(replace(asked, branches=tuple(sorted(places))))
    driver.finish(*requests)
    for one in requests:
        alone = Driver(sharing=False, num_cells=400, slots=1)
        alone.finish(one)
        assert driver.answers[one.id] == alone.answers[one.id]
