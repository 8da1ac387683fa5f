"""What `bench.replay` makes of a trace before it sends it to a small model."""

from __future__ import annotations

import pytest

from bench.replay import LATENCIES, between, compared, paced, prediction, spread
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


def at(*moments: float) -> Trace:
    return Trace(tuple(Traced(n, moment, Row(0, 10, 1)) for n, moment in enumerate(moments)))


@pytest.mark.parametrize(
    ("recorded", "sent"),
    [
        ((0, 0, 0, 3, 6, 6), (0, 1, 2, 3, 6, 7.5)),
        ((0, 1, 2), (0, 1, 2)),
        ((0, 0), (0, 0)),
    ],
)
def test_requests_of_one_moment_come_evenly_until_the_next(
    recorded: tuple[float, ...], sent: tuple[float, ...]
) -> None:
    requests = spread(at(*recorded)).requests
    assert tuple(request.arrival_seconds for request in requests) == sent
    assert [request.number for request in requests] == list(range(len(recorded)))


def test_a_prediction_is_held_against_what_was_measured_and_against_other_speeds() -> None:
    trace = shortened(LONG, 8).apart()
    slow, real = (prediction(trace, ROOM, STEPS.times(factor), threads=1) for factor in (2, 1))
    found = compared(slow, {key: real[key] for key in ("hit_rate", "engine_seconds", *LATENCIES)})
    assert found["hit_rate_points"] == 0
    assert found["engine_seconds_error"] == found["total_p50_error"] == 1
    lowest, highest = real["total_p50"], slow["total_p50"]
    expected = [round(lowest, 4), round(highest, 4)]
    assert between([slow, real])["predicted_total_p50_between"] == expected
