"""What `bench.replay` makes of a trace before it sends it to a small model."""

from __future__ import annotations

import pytest

from bench.replay import paced
from bench.shortening import shortened
from edgekv.traffic.room import Room
from edgekv.traffic.simulation import simulate
from edgekv.traffic.step_time import StepTime
from edgekv.traffic.trace import Row, Trace, Traced

LONG = Trace(
    tuple(
        Traced(n, n * 0.5, Row(n * 500.0, 1300 + n, 100, hash_ids=(0, 1, 100 + n)))
        for n in range(40)
    )
)
ROOM = Room(slots=4, kept=4, cells=4096, context_length=4096, batch=64)
STEPS = StepTime(0.01, 0.005, 0.008)


@pytest.mark.parametrize("shorter", [1, 7, 48, 192])
def test_a_shortened_prompt_is_as_long_as_its_row_says(shorter: int) -> None:
    for traced in shortened(LONG, shorter).requests:
        assert len(traced.prompt) == traced.row.input_length == (1300 + traced.number) // shorter
        assert traced.row.max_tokens == traced.row.output_length == max(1, 100 // shorter)


def test_shortened_prompts_still_begin_alike() -> None:
    first, second, *_ = (traced.prompt for traced in shortened(LONG, 8).requests)
    assert first[:128] == second[:128]
    assert first[128] != second[128]


def test_the_pace_keeps_the_machine_as_busy_as_was_asked() -> None:
    trace = paced(shortened(LONG, 8), ROOM, STEPS, busy=0.5, seconds=1000)
    assert len(trace.requests) == 40
    run = simulate(trace, ROOM, STEPS)
    assert run.busy_seconds / run.seconds == pytest.approx(0.5, abs=0.1)


def test_as_many_requests_are_sent_as_there_is_time_for() -> None:
    whole = shortened(LONG, 8)
    work = simulate(whole.apart(), ROOM, STEPS).busy_seconds
    trace = paced(whole, ROOM, STEPS, busy=0.5, seconds=work * 0.75 / 0.5)
    assert len(trace.requests) == 30
