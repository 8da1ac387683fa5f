"""A whole worker on the real starter model: plan, load, answer, die, go on."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from edgekv.budget.replan import is_another_size_of
from edgekv.budget.wish import Wish
from edgekv.config.places import log_folder
from edgekv.core.events import Delta, Finished, FinishReason, Started
from edgekv.core.frames import Submit
from edgekv.core.request import RequestId, SamplingParams, Segment, TextPrompt, Token
from edgekv.errors import DoesNotFit, ModelError, PromptTooLong, Unavailable
from edgekv.service.states import LoadStep, State
from edgekv.service.worker import Worker

pytestmark = pytest.mark.llama

WISH = Wish(context_length=512, slots=2)
STOP = Token(48124)
"""A starter-model token whose text is "STOP"."""


def with_worker(path: Path, use: Callable[[Worker], Awaitable[None]]) -> None:
    async def run() -> None:
        worker = Worker(str(path), WISH)
        try:
            async with asyncio.timeout(600):
                await worker.start()
                await use(worker)
        finally:
            await worker.close()
        assert worker.engine_pid is not None
        assert not psutil.pid_exists(worker.engine_pid)

    asyncio.run(run())


def always_stop(name: str, max_tokens: int) -> Submit:
    """A request whose every token is forced, so that its text is known."""
    return Submit(
        RequestId(name),
        TextPrompt((Segment("The robot", True),)),
        max_tokens,
        SamplingParams(temperature=0, logit_bias=((STOP, 1000.0),)),
    )


def test_start_tells_where_it_is(starter_model: Path) -> None:
    async def run() -> None:
        worker = Worker(str(starter_model), WISH)
        steps: list[LoadStep] = []
        await worker.start(steps.append)
        states = list(dict.fromkeys(step.state for step in steps))
        assert states == [State.STARTING, State.PLANNING, State.LOADING, State.READY]
        assert steps[-2].fraction == 1
        assert worker.plan is not None
        assert worker.plan.choice.context_length == 512
        await worker.close()
        await worker.close()
        assert worker.state is State.CLOSED

    asyncio.run(run())


def test_killed_in_the_middle_an_answer_goes_on_and_loses_nothing(starter_model: Path) -> None:
    async def use(worker: Worker) -> None:
        text, events = "", []
        async for event in worker.stream(always_stop("a", max_tokens=40)):
            events.append(event)
            if isinstance(event, Delta):
                text += event.text
                if event.num_tokens in (10, 11):
                    assert worker.engine_pid is not None
                    os.kill(worker.engine_pid, signal.SIGKILL)
        assert text == "STOP" * 40
        assert sum(isinstance(event, Started) for event in events) == 1
        assert events[-1] == Finished(RequestId("a"), FinishReason.LENGTH, 40)
        assert worker.num_restarts >= 1

    with_worker(starter_model, use)


def test_after_a_death_between_requests_the_next_one_is_answered(starter_model: Path) -> None:
    async def use(worker: Worker) -> None:
        assert worker.engine_pid is not None
        os.kill(worker.engine_pid, signal.SIGKILL)
        events = [event async for event in worker.stream(always_stop("a", max_tokens=3))]
        assert isinstance(events[-1], Finished)
        assert worker.state is State.READY

    with_worker(starter_model, use)


def test_a_file_that_was_replaced_meanwhile_is_not_taken_for_the_model(
    starter_model: Path, tmp_path: Path
) -> None:
    link = tmp_path / "model.gguf"
    link.symlink_to(starter_model)

    async def use(worker: Worker) -> None:
        link.unlink()
        link.write_text("another model")
        assert worker.engine_pid is not None
        os.kill(worker.engine_pid, signal.SIGKILL)
        with pytest.raises(Unavailable, match="was replaced or removed while it was in use"):
            await anext(worker.stream(always_stop("a", max_tokens=3)))

    with_worker(link, use)


def test_a_caller_that_leaves_frees_its_cells(starter_model: Path) -> None:
    async def use(worker: Worker) -> None:
        stream = worker.stream(always_stop("a", max_tokens=400))
        assert isinstance(await anext(stream), Started)
        await stream.aclose()
        events = [event async for event in worker.stream(always_stop("b", max_tokens=3))]
        assert isinstance(events[-1], Finished)
        assert worker.snapshot.num_running == 0

    with_worker(starter_model, use)


def test_a_prompt_that_is_too_long_is_refused_with_both_numbers(starter_model: Path) -> None:
    async def use(worker: Worker) -> None:
        submit = Submit(RequestId("a"), TextPrompt((Segment("word " * 600, True),)))
        with pytest.raises(PromptTooLong, match=r"601 tokens .* hold 512"):
            _ = [event async for event in worker.stream(submit)]

    with_worker(starter_model, use)


def test_text_and_tokens_go_both_ways(starter_model: Path) -> None:
    async def use(worker: Worker) -> None:
        tokens = await worker.tokenize((Segment("한국어", False),))
        assert await worker.detokenize(tokens) == "한국어"

    with_worker(starter_model, use)


def test_a_closed_worker_says_so(starter_model: Path) -> None:
    async def run() -> None:
        worker = Worker(str(starter_model), WISH)
        await worker.start()
        await worker.close()
        with pytest.raises(Unavailable, match="shutting down"):
            _ = [event async for event in worker.stream(always_stop("a", 3))]

    asyncio.run(run())


def test_a_start_that_fails_leaves_nothing_running(starter_model: Path, tmp_path: Path) -> None:
    async def run(path: Path, wish: Wish, error: type[Exception]) -> None:
        worker = Worker(str(path), wish)
        with pytest.raises(error):
            await worker.start()
        assert worker.state is State.FAILED
        assert worker.engine_pid is not None
        assert not psutil.pid_exists(worker.engine_pid)

    asyncio.run(run(tmp_path / "absent.gguf", WISH, ModelError))
    asyncio.run(run(starter_model, Wish(memory_bytes=100_000_000), DoesNotFit))


def test_an_engine_that_ran_out_of_memory_starts_again_smaller(starter_model: Path) -> None:
    async def run() -> None:
        worker = Worker(str(starter_model), Wish(memory_bytes=400 * 1024**2))
        await worker.start()
        assert worker.plan is not None
        before = worker.plan
        assert worker.engine_pid is not None
        folder = log_folder()
        assert folder is not None
        log = folder / "engine.log"
        with log.open("ab") as stream:  # what ggml says before it aborts
            stream.write(b"ggml_backend_alloc: failed to allocate buffer\n")
        os.kill(worker.engine_pid, signal.SIGABRT)
        events = [event async for event in worker.stream(always_stop("a", 3))]
        assert isinstance(events[-1], Finished)
        assert worker.plan.total_bytes <= before.total_bytes * 0.8
        assert is_another_size_of(worker.plan.choice, before.choice)
        assert worker.watch.view().cells_at_first == before.choice.cells
        await worker.close()

    asyncio.run(run())
