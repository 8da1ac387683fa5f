"""The simulation and the engine's own loop do the same, event by event, on the same traffic.

One is driven by a counted clock and computes nothing. The other is the engine process with its
inbox, its session and the strict fake, on a clock that its decodes move on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

from edgekv.core.events import (
    EngineEvent,
    Failed,
    Finished,
    FinishReason,
    Started,
    StreamEvent,
)
from edgekv.core.frames import Cancel, EngineFrame, Open, Snapshot, StepFrame, Submit
from edgekv.core.plan import Choice, Opening
from edgekv.core.request import (
    Priority,
    RequestId,
    SamplingParams,
    TokenPrompt,
)
from edgekv.engine.process import EngineProcess, Leave
from edgekv.kv import swap
from edgekv.traffic.room import Room
from edgekv.traffic.simulation import simulate
from edgekv.traffic.step_time import StepTime
from edgekv.traffic.trace import Row, Trace, Traced
from tests.traffic.timed_engine import Clock, TimedLibrary

EXACT = StepTime(step=2**-4, prompt_token=2**-7, answer=2**-6, attended_by_few=2**-12)
"""Powers of two: sums and differences of such times are exact, in whatever order."""
BLOCK, CONTEXT = 8, 64


class Timeline(SimpleQueue[Any]):
    """An inbox in which every command lies from its moment on; waiting for one lets time pass."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.coming: deque[tuple[float, Any]] = deque()

    def empty(self) -> bool:
        return not self.coming or self.coming[0][0] > self._clock.now

    def get_nowait(self) -> Any:
        if self.empty():
            raise Empty
        return self.coming.popleft()[1]

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if not self.coming:
            return Leave()
        moment, command = self.coming.popleft()
        if isinstance(command, Submit):
            self._clock.now = max(self._clock.now, moment)
        return command


Told = tuple[float, list[tuple[object, ...]], dict[str, object]]
"""A moment, what was heard at it, and the counts after it."""


def heard(event: EngineEvent | StreamEvent) -> tuple[object, ...] | None:
    match event:
        case Started(request_id, num_prompt, num_reused):
            return request_id, num_prompt, num_reused
        case Finished(request_id, reason, num_generated):
            return request_id, reason is FinishReason.CANCELLED, num_generated
        case _:
            # Tokens are compared by their count: a session tells them as text.
            return None


def told(moment: float, events: Sequence[EngineEvent | StreamEvent], snapshot: Snapshot) -> Told:
    counts = {name: value for name, value in asdict(snapshot).items() if name != "resident_bytes"}
    return moment, [one for event in events if (one := heard(event)) is not None], counts


def by_simulation(trace: Trace, room: Room) -> tuple[list[Told], int]:
    """What was told, and how many requests were refused."""
    found: list[Told] = []
    run = simulate(trace, room, EXACT, lambda *step: found.append(told(*step)))
    return found, run.refused


def by_process(trace: Trace, room: Room) -> tuple[list[Told], int]:
    found: list[Told] = []
    refused = 0
    clock = Clock()

    def send(frame: EngineFrame) -> None:
        nonlocal refused
        if not isinstance(frame, StepFrame):
            return
        if any(isinstance(event, Failed) for event in frame.events):
            refused += 1
        else:
            found.append(told(clock.now, frame.events, frame.snapshot))

    inbox = Timeline(clock)
    process = EngineProcess(
        TimedLibrary(clock, EXACT), inbox, send, resident_bytes=lambda: 0, clock=clock
    )
    inbox.coming.append((0.0, Open(1, opening(room))))
    process.turn()
    inbox.coming.extend(sorted(commands(trace), key=lambda one: one[0]))
    process.run()
    return found, refused


def opening(room: Room) -> Opening:
    choice = Choice(
        context_length=room.context_length,
        slots=room.slots,
        cells=room.cells,
        kv_type_k="f16",
        kv_type_v="f16",
        gpu_layers=0,
        batch=room.batch,
        ubatch=room.batch,
        swa_full=True,
        flash_attention=True,
        kept=room.kept,
        host_cache_bytes=room.host_cells,
    )
    return Opening(
        "model.gguf",
        choice,
        share_prefixes=room.shares,
        max_gap_ms=round(room.max_gap_seconds * 1000),
        max_waiting=room.max_waiting,
    )


def commands(trace: Trace) -> list[tuple[float, Submit | Cancel]]:
    found: list[tuple[float, Submit | Cancel]] = []
    for traced in trace.requests:
        request_id = RequestId(str(traced.number))
        submit = Submit(
            request_id,
            TokenPrompt(traced.prompt),
            max_tokens=traced.row.max_tokens,
            sampling=SamplingParams(seed=traced.num_answer),
            stop=("z",),
            priority=traced.row.priority,
        )
        found.append((traced.arrival_seconds, submit))
        if traced.leaves_seconds is not None:
            found.append((traced.leaves_seconds, Cancel(request_id)))
    return found


@st.composite
def rooms(draw: st.DrawFn) -> Room:
    slots = draw(st.integers(1, 4))
    shares = draw(st.booleans())
    return Room(
        slots=slots,
        kept=draw(st.integers(1, 3)) if shares else 0,
        cells=draw(st.sampled_from([CONTEXT, 80, 128, 256])),
        context_length=CONTEXT,
        batch=slots + draw(st.sampled_from([0, 3, 16, 100])),
        host_cells=draw(st.sampled_from([0, 40, 500])),
        max_waiting=draw(st.sampled_from([None, 2, 5])),
        max_gap_seconds=draw(st.sampled_from([0, 0.25])),
        shares=shares,
    )


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Prompts of a few blocks, many of which begin alike, and the last of which is their own."""
    requests = []
    moment = 0.0
    for number in range(draw(st.integers(1, 14))):
        moment += draw(st.sampled_from([0, 0, 0, 1 / 16, 1, 8]))
        common = draw(st.integers(0, 3))
        # One conversation can be too long.
        length = (
            common * BLOCK + draw(st.integers(1, BLOCK)) + draw(st.sampled_from([0] * 9 + [40]))
        )
        own = range(100 * (number + 1), 100 * (number + 1) + 8)
        answer = draw(st.integers(1, 30))
        leaves = draw(st.sampled_from([None, None, None, 250, 1000, 4000]))
        row = Row(
            timestamp=moment * 1000,
            input_length=length,
            output_length=answer,
            hash_ids=(*range(common), *own),
            block_tokens=BLOCK,
            outcome="finished" if leaves is None else "cancelled",
            priority=draw(st.sampled_from(list(Priority))),
            max_tokens=draw(st.sampled_from([None, answer, answer + 9])),
            total_ms=leaves,
        )
        requests.append(Traced(number, moment, row))
    return Trace(tuple(requests))


@settings(
    max_examples=80,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(traces(), rooms())
def test_the_simulation_and_the_engines_loop_do_the_same(
    monkeypatch: pytest.MonkeyPatch, trace: Trace, room: Room
) -> None:
    monkeypatch.setattr(swap, "PIECE_CELLS", 9)
    simulated, num_refused = by_simulation(trace, room)
    processed, num_failed = by_process(trace, room)
    assert num_refused == num_failed
    for mine, theirs in zip(simulated, processed, strict=False):
        assert mine == theirs
    assert len(simulated) == len(processed)
