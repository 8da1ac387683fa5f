"""Another plan, tried beside a real model that answers, and taken."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest

from edgekv.budget.wish import Wish
from edgekv.core.events import Delta
from edgekv.core.frames import Submit
from edgekv.core.request import RequestId, SamplingParams, Segment, TextPrompt, Token
from edgekv.errors import DoesNotFit
from edgekv.service.worker import Worker

pytestmark = pytest.mark.llama

STOP = Token(48124)
"""A starter-model token whose text is "STOP"."""
NUM_TOKENS = 120


async def read(worker: Worker, reached: asyncio.Event) -> str:
    prompt = TextPrompt((Segment("The robot", True),))
    params = SamplingParams(temperature=0, logit_bias=((STOP, 1000.0),))
    text = ""
    async for event in worker.stream(Submit(RequestId("a"), prompt, NUM_TOKENS, params)):
        if isinstance(event, Delta):
            text += event.text
            reached.set()
    return text


def test_a_plan_is_tried_in_a_process_of_its_own_and_taken_while_an_answer_runs(
    starter_model: Path,
) -> None:
    async def run() -> None:
        worker, reached = (
            Worker(str(starter_model), Wish(context_length=512, slots=2)),
            asyncio.Event(),
        )
        await worker.start()
        engine = worker.engine_pid
        desk = worker.desk
        assert desk is not None
        reading = asyncio.create_task(read(worker, reached))
        await reached.wait()
        before = worker.plan
        draft = await desk.draft(
            Wish(context_length=256, slots=1, kv_type_k="f16", kv_type_v="f16")
        )
        others = {child.pid for child in psutil.Process().children() if _is_engine(child)}
        assert len(others) == 2
        assert worker.plan is before
        with pytest.raises(DoesNotFit):
            await desk.draft(Wish(memory_bytes=100_000_000))
        await desk.take(draft)
        assert worker.plan == draft.plan
        assert await reading == "STOP" * NUM_TOKENS
        await desk.close()
        report = await worker.report()
        assert report.snapshot.num_cells == draft.plan.choice.cells == 256
        assert worker.engine_pid == engine
        assert worker.num_restarts == 0
        (other,) = others - {engine}
        assert not psutil.pid_exists(other)
        await worker.close()

    asyncio.run(run())


def _is_engine(process: psutil.Process) -> bool:
    return process.cmdline()[-1:] == ["engine"]
