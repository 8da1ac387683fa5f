"""Batching, reuse, suspension, the store, cancels, failures and restarts never change the tokens
of an answer.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from edgekv.core.batch import DecodeStatus
from edgekv.core.events import Failed, Finished, FinishReason
from edgekv.core.request import Priority, Request, RequestId, Token
from edgekv.kv import swap, unshared_cache
from edgekv.kv.disk import Disk
from edgekv.kv.entry import Entry
from edgekv.kv.store import Store
from tests.engine.driver import Driver, request

NUM_REQUESTS = 12
LONGEST = 52
"""Tokens of the longest conversation below; a pool must hold it."""


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of several pieces, and of branches, in conversations as short as these."""
    monkeypatch.setattr(swap, "PIECE_CELLS", 9)
    monkeypatch.setattr(unshared_cache, "FEWEST_BEFORE_CHECKPOINT", 4)


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
                priority=rng.choice(list(Priority)),
            )
        )
    return requests


class LossyStore(Store):
    """Loses now and then what it is asked for, as a disk might."""

    def __init__(self, rng: random.Random, host_limit_bytes: int) -> None:
        super().__init__(host_limit_bytes=host_limit_bytes)
        self._rng = rng

    def get(self, entry: Entry) -> bytes | None:
        if self._rng.random() < 0.5:
            self.forget(entry, "tried out")
            return None
        return super().get(entry)


def random_store(rng: random.Random, folder: Path) -> Store:
    """None, one for a few sequences, for one or for all, with or without a disk."""
    limit = rng.choice([0, 300, 1_000, 100_000])
    if rng.random() < 0.3:
        return LossyStore(rng, limit)
    has_disk = rng.random() < 0.3
    disk = Disk(folder, "fake", limit_bytes=rng.choice([1_000, 20_000])) if has_disk else None
    return Store(host_limit_bytes=limit, disk=disk)


def random_engine(rng: random.Random, folder: Path) -> Driver:
    slots = rng.choice([1, 2, 5, 16])
    driver = Driver(
        num_cells=rng.choice([LONGEST, 60, 100, 400]),
        slots=slots,
        kept=rng.choice([0, 1, 4]),
        batch_tokens=slots + rng.choice([0, 1, 3, 16, 512]),
        sharing=rng.random() < 0.8,
        store=random_store(rng, folder),
    )
    if rng.random() < 0.7:
        # Answers that are expected to be short are admitted into too little room.
        driver.engine._scheduler._lengths.learn(1)
    return driver


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
def test_together_equals_alone(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    requests = mixed_requests(rng)
    driver = random_engine(rng, tmp_path)
    submit_over_time(driver, requests, rng)
    driver.finish()
    while driver.engine.rest():
        driver.compare_books()
    for one in requests:
        end = driver.ends[one.id]
        assert isinstance(end, Finished)
        assert (driver.answers[one.id], end.reason) == answer_alone(one)


@pytest.mark.parametrize("seed", range(150))
def test_those_that_leave_or_fail_change_nothing_for_the_others(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    requests = mixed_requests(rng)
    driver = random_engine(rng, tmp_path)
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


@pytest.mark.parametrize("seed", range(60))
def test_an_answer_goes_on_in_another_engine_from_the_tokens_it_has(
    seed: int, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    requests = mixed_requests(rng)
    told: dict[RequestId, list[Token]] = {one.id: [] for one in requests}
    ends: dict[RequestId, Finished] = {}
    for _ in range(4):
        engine = random_engine(rng, tmp_path)
        left = [one for one in requests if one.id not in ends]
        for one in left:
            engine.submit(replace(one, generated=tuple(told[one.id])))
        for _ in range(rng.randint(1, 10)):
            engine.step()
        for one in left:
            told[one.id] += engine.answers[one.id]
            if isinstance(end := engine.ends.get(one.id), Finished):
                ends[one.id] = end
    for one in requests:
        whole, reason = answer_alone(one)
        if one.id in ends:
            assert (told[one.id], ends[one.id].reason) == (whole, reason)
        assert told[one.id] == whole[: len(told[one.id])]
