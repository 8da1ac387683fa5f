"""Batching, reuse, eviction, cancels and failures never change the tokens of an answer."""

from __future__ import annotations

import random

import pytest

from edgekv.core.batch import DecodeStatus
from edgekv.core.events import Failed, Finished, FinishReason
from edgekv.core.request import Request, RequestId, Token
from tests.engine.driver import Driver, request

NUM_REQUESTS = 12
LONGEST = 52
"""Tokens of the longest conversation below; a pool must hold it."""


def mixed_requests(rng: random.Random) -> list[Request]:
    """Prompts that share none, some or all of a system prompt, and now and then are the same."""
    system = [rng.randint(1, 50) for _ in range(rng.randint(0, 30))]
    requests: list[Request] = []
    for number in range(NUM_REQUESTS):
        prompt = system[: rng.randint(0, len(system))]
        prompt += [rng.randint(1, 4) for _ in range(rng.randint(1, 8))]
        if requests and rng.random() < 0.3:
            prompt = list(rng.choice(requests).prompt)
        requests.append(
            request(
                str(number),
                prompt,
                max_tokens=rng.randint(1, 12),
                seed=rng.choice([None, 1, 2]),
                ignore_end=rng.random() < 0.2,
            )
        )
    return requests


def random_engine(rng: random.Random) -> Driver:
    slots = rng.choice([1, 2, 5, 16])
    return Driver(
        num_cells=rng.choice([LONGEST, 60, 100, 400]),
        slots=slots,
        kept=rng.choice([0, 1, 4]),
        batch_tokens=slots + rng.choice([0, 1, 3, 16, 512]),
        sharing=rng.random() < 0.8,
    )


def answer_alone(one: Request) -> tuple[list[Token], FinishReason]:
    alone = Driver(num_cells=LONGEST, slots=1)
    alone.finish(one)
    end = alone.ends[one.id]
    assert isinstance(end, Finished)
    return alone.answers[one.id], end.reason


def submit_over_time(driver: Driver, requests: list[Request], rng: random.Random) -> None:
    for one in requests:
        driver.submit(one)
        for _ in range(rng.choice([0, 0, 0, 1, 3])):
            driver.step()


@pytest.mark.parametrize("seed", range(300))
def test_together_equals_alone(seed: int) -> None:
    rng = random.Random(seed)
    requests = mixed_requests(rng)
    driver = random_engine(rng)
    submit_over_time(driver, requests, rng)
    driver.finish()
    for one in requests:
        end = driver.ends[one.id]
        assert isinstance(end, Finished)
        assert (driver.answers[one.id], end.reason) == answer_alone(one)


@pytest.mark.parametrize("seed", range(150))
def test_those_that_leave_or_fail_change_nothing_for_the_others(seed: int) -> None:
    rng = random.Random(seed)
    requests = mixed_requests(rng)
    driver = random_engine(rng)
    bad = [DecodeStatus.FAILED, DecodeStatus.NO_SPACE]
    driver.backend.outcomes = {
        rng.randrange(40): rng.choice(bad) for _ in range(rng.choice([0, 2]))
    }
    left: set[RequestId] = set()
    for one in requests:
        submit_over_time(driver, [one], rng)
        if rng.random() < 0.3:
            leaver = rng.choice(requests).id
            ended_before = set(driver.ends)
            rng.choice([driver.cancel, driver.stop])(leaver)
            left |= driver.ends.keys() - ended_before
    driver.finish()
    for one in requests:
        whole, reason = answer_alone(one)
        answer, end = driver.answers[one.id], driver.ends[one.id]
        if one.id in left or isinstance(end, Failed):
            assert answer == whole[: len(answer)]
        else:
            assert (answer, end.reason) == (whole, reason)
