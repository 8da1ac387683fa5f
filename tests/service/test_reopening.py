"""A model opened in another way while it answers, on the strict fake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from msgspec.structs import replace

from edgekv.budget.wish import Wish
from edgekv.core.events import Delta, Finished, Started
from edgekv.core.frames import Open, Submit
from edgekv.core.look import EngineLook
from edgekv.core.plan import MemoryPlan
from edgekv.core.request import RequestId, Segment, TextPrompt
from edgekv.errors import ModelError
from edgekv.service.drafts import Draft
from edgekv.service.states import State
from edgekv.service.worker import Worker
from tests.fakes import FakeLibrary
from tests.server.in_loop_engine import Engines, in_loop_worker

pytestmark = pytest.mark.anyio

ANSWER = "The lighthouse stood at the edge of the sea, and nobody had been there for years."


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def unstarted() -> Iterator[tuple[Worker, Engines]]:
    with in_loop_worker(FakeLibrary(answer=ANSWER)) as pair:
        yield pair


@pytest.fixture
async def worker(unstarted: tuple[Worker, Engines]) -> AsyncIterator[Worker]:
    worker, _ = unstarted
    await worker.start()
    yield worker
    await worker.close()


def with_slots(worker: Worker, slots: int) -> Draft:
    assert worker.plan is not None
    choice = replace(worker.plan.choice, slots=slots)
    plan: MemoryPlan = replace(worker.plan, choice=choice)
    return Draft(Wish(slots=slots), plan)


def ask(name: str) -> Submit:
    return Submit(RequestId(name), TextPrompt((Segment("Tell me", True),)))


async def read(worker: Worker, name: str, at: int, reached: asyncio.Event) -> tuple[str, list[str]]:
    text, kinds = "", []
    async for event in worker.stream(ask(name)):
        kinds.append(type(event).__name__)
        if isinstance(event, Delta):
            text += event.text
            if event.num_tokens >= at:
                reached.set()
    return text, kinds


@pytest.mark.parametrize("at", [1, 2, 17, 40])
async def test_answers_under_way_go_on_in_the_model_as_it_is_opened_next(
    worker: Worker, at: int
) -> None:
    reached = asyncio.Event()
    reading = [asyncio.create_task(read(worker, name, at, reached)) for name in ("a", "b", "c")]
    await reached.wait()
    await worker.reopen(with_slots(worker, 1))
    assert worker.plan is not None
    assert worker.plan.choice.slots == 1
    for text, kinds in await asyncio.gather(*reading):
        assert text == ANSWER
        assert kinds.count(Started.__name__) == kinds.count(Finished.__name__) == 1
    assert worker.num_restarts == 0


async def test_an_opening_that_fails_leaves_the_model_as_it_was(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, unstarted: tuple[Worker, Engines]
) -> None:
    library, before = unstarted[1].library, worker.plan
    works = library.open

    def refuses_one_slot(opening, on_progress):  # type: ignore[no-untyped-def]
        if opening.choice.slots == 1:
            raise ModelError("llama.cpp has no room for it; close something.")
        return works(opening, on_progress)

    monkeypatch.setattr(library, "open", refuses_one_slot)
    reached = asyncio.Event()
    reading = asyncio.create_task(read(worker, "a", 5, reached))
    await reached.wait()
    with pytest.raises(ModelError, match="no room"):
        await worker.reopen(with_slots(worker, 1))
    assert worker.plan == before
    assert worker.state is State.READY
    assert (await reading)[0] == ANSWER


async def test_an_engine_that_dies_while_it_opens_is_started_again_as_before(
    worker: Worker, unstarted: tuple[Worker, Engines]
) -> None:
    engine, before = unstarted[1].last, worker.plan
    reached = asyncio.Event()
    reading = asyncio.create_task(read(worker, "a", 5, reached))
    await reached.wait()
    engine.holds_open = True
    opening = asyncio.create_task(worker.reopen(with_slots(worker, 1)))
    for _ in ("the start's", "the reopening's"):
        await engine.hears(Open)
    engine.end(-6)
    with pytest.raises(Exception, match="ended"):
        await opening
    assert worker.plan == before
    assert (await reading)[0] == ANSWER


async def test_a_report_shows_what_runs_and_a_closed_worker_nothing(worker: Worker) -> None:
    reached = asyncio.Event()
    reading = asyncio.create_task(read(worker, "a", 5, reached))
    await reached.wait()
    look = (await worker.report()).look
    assert [request.request_id for request in look.running] == ["a"]
    await reading
    await worker.close()
    assert (await worker.report()).look == EngineLook()
