"""Prices of steps, measured through requests alone, in an engine whose steps cost what we say."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import AsyncIterator
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, cast

import pytest
from anyio.lowlevel import checkpoint

from edgekv.core.events import Failed, Finished, StreamEvent
from edgekv.core.frames import EngineFrame, Open, Snapshot, StepFrame, Submit
from edgekv.core.plan import Choice, Opening
from edgekv.core.request import RequestId
from edgekv.engine.process import EngineProcess, Inbox
from edgekv.service.host import ModelHost
from edgekv.service.measuring import measure_speed
from edgekv.service.step_times import StepMeasurement
from edgekv.traffic.step_time import Piece, StepTime, fitted, work_of
from tests.traffic.timed_engine import Clock, TimedLibrary

pytestmark = pytest.mark.anyio

FLASH = StepTime(0.007, 0.008, 0.010, 1.1e-5, 2.2e-6, 0.0, 8e-7)
PLAIN = StepTime(0.007, 0.008, 0.010, 0.0, 0.0, 5e-6, 2.7e-6)


def choice(context_length: int = 4096, slots: int = 4) -> Choice:
    return Choice(
        context_length=context_length,
        slots=slots,
        cells=max(4096, context_length),
        kv_type_k="f16",
        kv_type_v="f16",
        gpu_layers=0,
        batch=128,
        ubatch=128,
        swa_full=True,
        flash_attention=True,
        kept=slots,
    )


class TimedHost:
    """As much of a `ModelHost` as a measurement needs; whoever waits lets the engine go on."""

    def __init__(self, made: Choice, step_time: StepTime, clock: Clock) -> None:
        self._inbox: Inbox = SimpleQueue()
        self._events: dict[RequestId, deque[StreamEvent]] = defaultdict(deque)
        self._process = EngineProcess(
            TimedLibrary(clock, step_time),
            self._inbox,
            self._hear,
            resident_bytes=lambda: 0,
            clock=clock,
        )
        self.snapshot = Snapshot()
        self.plan, self.facts = SimpleNamespace(choice=made), SimpleNamespace(num_vocab=1000)
        self._inbox.put(Open(1, Opening("model.gguf", made, max_gap_ms=0)))
        self._process.turn()

    async def stream(self, submit: Submit) -> AsyncIterator[StreamEvent]:
        self._inbox.put(submit)
        events = self._events[submit.request_id]
        while True:
            await checkpoint()  # until all that are asked together have been asked
            while not events:
                self._process.turn()
            event = events.popleft()
            yield event
            if isinstance(event, Finished | Failed):
                return

    def _hear(self, frame: EngineFrame) -> None:
        if isinstance(frame, StepFrame):
            self.snapshot = frame.snapshot
            for event in frame.events:
                self._events[event.request_id].append(event)


def host(made: Choice, step_time: StepTime, clock: Clock) -> ModelHost:
    return cast("ModelHost", TimedHost(made, step_time, clock))


async def measured(made: Choice, step_time: StepTime, seconds: float = 12.0) -> StepTime:
    clock = Clock()
    measurement = StepMeasurement(host(made, step_time, clock), seconds, clock=clock)
    return fitted(await measurement.run())


STEPS: dict[str, tuple[list[Any], int]] = {
    "a prompt's chunk": ([Piece(0, 128)], 128),
    "a chunk behind a long prompt": ([Piece(3000, 128)], 3500),
    "an answer alone": ([Piece(100, 1)], 101),
    "an answer deep down": ([Piece(3000, 1)], 3001),
    "answers beside a kept conversation": ([Piece(100, 1)] * 4, 3500),
    "a short chunk beside answers": ([Piece(1000, 40), *[Piece(100, 1)] * 3], 3000),
}


@pytest.mark.parametrize("step_time", [FLASH, PLAIN], ids=["flash", "plain"])
async def test_steps_that_were_never_measured_are_foreseen(step_time: StepTime) -> None:
    found = await measured(choice(), step_time)
    for name, (pieces, used) in STEPS.items():
        work = work_of(pieces, used)
        assert found.seconds(work) == pytest.approx(step_time.seconds(work), rel=0.1), name


@pytest.mark.parametrize("made", [choice(32, 1), choice(256, 1), choice(512, 16)])
async def test_a_short_conversation_is_enough_to_measure(made: Choice) -> None:
    found = await measured(made, FLASH)
    work = work_of([Piece(0, 8)], 8)
    assert found.seconds(work) == pytest.approx(FLASH.seconds(work), rel=0.1)


async def test_a_slow_machine_is_measured_with_few_tokens() -> None:
    clock = Clock()
    measurement = StepMeasurement(host(choice(), FLASH.times(20), clock), 12.0, clock=clock)
    found = fitted(await measurement.run())
    work = work_of([Piece(0, 64)], 64)
    assert found.seconds(work) == pytest.approx(20 * FLASH.seconds(work), rel=0.1)


async def test_a_glance_tells_how_fast_a_model_reads_and_writes() -> None:
    clock = Clock()
    speed = await measure_speed(host(choice(), StepTime(0.0, 0.01, 0.05), clock), clock)
    assert (speed.num_read, speed.num_written) == (256, 48)
    assert speed.reading == pytest.approx(100)
    assert speed.writing == pytest.approx(20)
