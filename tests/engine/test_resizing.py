"""A pool that changes its size under running answers, on the strict fake: not a token differs."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from edgekv.core.events import Finished, FinishReason
from edgekv.core.frames import Open, StepFrame
from edgekv.core.memory_frames import Resize, Resized, Restrain, Restrained, Survey, Surveyed
from edgekv.core.plan import Choice
from edgekv.core.request import Request, RequestId
from edgekv.core.restraint import Restraint
from edgekv.engine.resizing import with_room_for
from edgekv.kv.disk import Disk
from edgekv.kv.store import Store
from tests.engine.driver import Driver, request
from tests.engine.test_process import CHOICE, OPENING, Front, ask, text_of
from tests.fakes import FakeLibrary

MIB = 1024**2
SMALLEST = replace(CHOICE, context_length=256, slots=1, cells=256, kept=1, batch=32)


def resize(driver: Driver, choice: Choice) -> Choice:
    """As a session does it."""
    choice = with_room_for(driver.engine.requests(), choice)
    driver.engine.leave_pool(choice)
    driver.backend.resize(choice)
    driver.engine.enter_pool(choice)
    driver.compare_books()
    return choice


def alone(asked: Request) -> list[int]:
    driver = Driver(num_cells=2048, slots=1)
    driver.finish(asked)
    return list(driver.answers[asked.id])


@dataclass(frozen=True)
class Change:
    after_steps: int
    slots: int
    cells: int
    keeps: bool

    @property
    def choice(self) -> Choice:
        return replace(SMALLEST, slots=self.slots, cells=self.cells * 256, kept=self.slots)


changes = st.lists(
    st.builds(Change, st.integers(0, 12), st.integers(1, 4), st.integers(1, 4), st.booleans()),
    max_size=6,
)
lengths = st.lists(st.tuples(st.integers(1, 120), st.integers(1, 40)), min_size=1, max_size=6)


@settings(max_examples=50)
@given(lengths, changes, st.sampled_from([0, 2_000, MIB]), st.booleans())
def test_every_answer_is_what_it_would_have_been(
    lengths: list[tuple[int, int]], changes: list[Change], host_bytes: int, sharing: bool
) -> None:
    asked = [
        request(str(n), range(1, 1 + num_prompt), max_tokens, seed=n, ignore_end=True)
        for n, (num_prompt, max_tokens) in enumerate(lengths)
    ]
    store = Store(host_limit_bytes=host_bytes)
    driver = Driver(num_cells=1024, slots=4, kept=2, sharing=sharing, store=store)
    driver.submit(*asked)
    for change in changes:
        for _ in range(change.after_steps):
            driver.step()
        driver.engine.restrain(Restraint(keeps=change.keeps, slots=change.slots))
        resize(driver, replace(change.choice, host_cache_bytes=host_bytes))
    driver.finish()
    for one in asked:
        assert driver.answers[one.id] == alone(one)
        assert driver.ends[one.id] == Finished(one.id, FinishReason.LENGTH, one.max_tokens)


def test_the_pool_never_gets_smaller_than_what_a_request_was_promised() -> None:
    driver = Driver(num_cells=1024, slots=2)
    driver.submit(request("a", range(1, 101), 500), request("b", range(1, 11), 20))
    driver.step()
    fitted = resize(driver, SMALLEST)
    assert (fitted.context_length, fitted.cells) == (600, 768)
    assert resize(driver, SMALLEST) == fitted
    driver.finish()
    assert resize(driver, SMALLEST) == SMALLEST


def test_what_was_computed_is_not_computed_again() -> None:
    driver = Driver(num_cells=1024, slots=2, store=Store(host_limit_bytes=MIB))
    driver.submit(request("a", range(1, 101), 8, ignore_end=True))
    driver.step()
    decoded = driver.backend.tokens_decoded
    resize(driver, replace(SMALLEST, host_cache_bytes=MIB))
    driver.finish()
    assert driver.engine.snapshot().tokens_recomputed == 0
    assert driver.backend.tokens_decoded == decoded + (100 - decoded) + 7


def test_a_finished_conversation_is_found_again_in_the_new_pool() -> None:
    store = Store(host_limit_bytes=MIB)
    driver = Driver(num_cells=1024, slots=2, kept=2, store=store)
    driver.finish(request("a", range(1, 101)))
    resize(driver, replace(SMALLEST, host_cache_bytes=MIB))
    driver.finish(request("b", range(1, 101)))
    assert driver.started[RequestId("b")].num_reused == 99


class TestRestraint:
    def test_what_is_kept_leaves_the_pool_and_host_memory_for_the_disk(
        self, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        disk = Disk(tmp_path_factory.mktemp("store"), "key", limit_bytes=MIB)
        driver = Driver(num_cells=1024, kept=2, store=Store(host_limit_bytes=MIB, disk=disk))
        driver.finish(request("a", range(1, 101)))
        driver.finish(request("b", range(201, 301)))
        while driver.engine.rest():
            pass
        freed = driver.engine.restrain(Restraint(keeps=False))
        driver.compare_books()
        after = driver.engine.snapshot()
        assert freed.num_cells > 100
        assert (after.cells_used, after.store_host_bytes) == (0, 0)
        assert after.store_disk_bytes > 200 * 8
        driver.finish(request("c", range(1, 101)))
        assert driver.started[RequestId("c")].num_reused == 99
        assert driver.engine.snapshot().cells_kept == 0

    def test_what_is_taken_back_from_host_memory_may_go_there_again(self) -> None:
        driver = Driver(num_cells=1024, kept=2, store=Store(host_limit_bytes=MIB))
        driver.engine.restrain(Restraint(keeps=False))
        driver.engine.restrain(Restraint())
        driver.finish(request("a", range(1, 101)))
        assert driver.engine.snapshot().cells_kept > 0
        while driver.engine.rest():
            pass
        assert driver.engine.snapshot().store_host_bytes > 0

    def test_fewer_run_at_once_and_those_that_run_go_on(self) -> None:
        driver = Driver(num_cells=1024, slots=4)
        asked = [request(str(n), range(n * 10 + 1, n * 10 + 9), 30, seed=n) for n in range(6)]
        driver.submit(*asked[:4])
        driver.step()
        driver.engine.restrain(Restraint(slots=1))
        driver.submit(*asked[4:])
        before = 4
        while not driver.engine.is_idle:
            driver.step()
            running = driver.engine.snapshot().num_running
            assert running <= max(1, before)
            before = running
        assert all(driver.answers[one.id] == alone(one) for one in asked)

    def test_a_new_size_does_not_lift_it(self) -> None:
        driver = Driver(num_cells=1024, slots=2)
        driver.engine.restrain(Restraint(slots=1))
        resize(driver, replace(SMALLEST, slots=4, cells=1024, context_length=1024, kept=0))
        driver.submit(*(request(str(n), range(1, 9)) for n in range(3)))
        driver.step()
        assert driver.engine.snapshot().num_running == 1
        driver.engine.restrain(Restraint())
        driver.finish()


class TestFrames:
    @pytest.fixture
    def front(self) -> Front:
        front = Front(FakeLibrary(answer="Grüße, 世界! " * 3))
        front.turn(Open(1, OPENING))
        return front

    def test_an_answer_goes_on_in_another_pool(self, front: Front) -> None:
        before = front.turn(ask("a"))
        smaller = replace(CHOICE, cells=256, context_length=256, slots=1)
        resized, *steps = front.turn(Resize(7, smaller))
        assert isinstance(resized, Resized)
        assert (resized.call, resized.choice, resized.num_carried) == (7, smaller, 1)
        assert resized.allocation is not None
        frames = [*before, *steps]
        while not front.process.is_idle:
            frames += front.turn()
        events = [
            event for frame in frames if isinstance(frame, StepFrame) for event in frame.events
        ]
        assert text_of(events) == "Grüße, 世界! " * 3
        assert isinstance(events[-1], Finished)

    def test_the_same_size_again_changes_nothing(self, front: Front) -> None:
        resized, *_ = front.turn(Resize(7, CHOICE))
        assert resized == Resized(7, CHOICE, None, 0)

    def test_restraint_is_told_what_it_brought(self, front: Front) -> None:
        front.answers(ask("a"))
        restrained, step = front.turn(Restrain(7, Restraint(keeps=False)))
        assert isinstance(restrained, Restrained)
        assert restrained.num_cells > 0
        assert isinstance(step, StepFrame)
        assert step.snapshot.cells_kept == 0

    def test_drivers_are_asked_anew(self, front: Front) -> None:
        [surveyed] = front.turn(Survey(7))
        assert isinstance(surveyed, Surveyed)
        assert surveyed.devices == FakeLibrary().devices()
