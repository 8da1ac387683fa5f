"""Tiny traces whose course is worked out by hand, on the real scheduler."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as replace_field

from edgekv.core.request import Priority
from edgekv.traffic.advice import Trials, advise, percentile, times_over, wall_of
from edgekv.traffic.load import Wall
from edgekv.traffic.room import Room, bytes_per_cell, room_of
from edgekv.traffic.simulation import is_in_time, simulate
from edgekv.traffic.step_time import StepTime
from edgekv.traffic.trace import Row, Trace, Traced
from tests.unit.budget_models import plan

SECOND_A_STEP = StepTime(step=1.0, prompt_token=0.0, answer=0.0)
ROOM = Room(slots=2, kept=2, cells=1024, context_length=512, batch=64, max_gap_seconds=0)


def trace(*rows: tuple[float, int, int], blocks: tuple[tuple[int, ...], ...] = ()) -> Trace:
    """Of (arrival seconds, prompt tokens, answer tokens)."""
    return Trace(
        tuple(
            Traced(
                n,
                arrival,
                Row(arrival * 1000, prompt, answer, blocks[n] if blocks else (), block_tokens=16),
            )
            for n, (arrival, prompt, answer) in enumerate(rows)
        )
    )


def test_one_request_takes_a_step_a_token() -> None:
    run = simulate(trace((0, 10, 4)), ROOM, SECOND_A_STEP)
    (answer,) = run.answered
    assert (answer.first_token, answer.total) == (1, 4)
    assert (run.seconds, run.busy_seconds) == (4, 4)


def test_two_requests_share_their_steps() -> None:
    run = simulate(trace((0, 10, 4), (0, 10, 4)), ROOM, SECOND_A_STEP)
    assert [answer.total for answer in run.answered] == [4, 4]
    assert (run.most_running, run.most_at_once) == (2, 2)


def test_a_third_waits_for_a_slot() -> None:
    run = simulate(trace((0, 10, 4), (0, 10, 4), (0, 10, 4)), ROOM, SECOND_A_STEP)
    assert sorted(answer.first_token for answer in run.answered) == [1, 1, 5]
    assert (run.most_running, run.most_at_once) == (2, 3)


def test_between_requests_the_clock_jumps() -> None:
    run = simulate(trace((0, 10, 2), (100, 10, 2)), ROOM, SECOND_A_STEP)
    assert run.seconds == 102
    assert run.busy_seconds == 4


def test_a_prefix_is_reused_as_far_as_the_blocks_say() -> None:
    run = simulate(
        trace((0, 40, 2), (50, 48, 2), blocks=((1, 2, 3), (1, 2, 9))), ROOM, SECOND_A_STEP
    )
    assert [answer.num_reused for answer in run.answered] == [0, 32]
    assert run.hit_rate == pytest.approx(32 / 88)


def test_without_sharing_nothing_is_reused() -> None:
    alone = Room(2, 0, 1024, 512, 64, shares=False, max_gap_seconds=0)
    blocks = ((1, 2, 3), (1, 2, 9))
    run = simulate(trace((0, 40, 2), (50, 48, 2), blocks=blocks), alone, SECOND_A_STEP)
    assert run.hit_rate == 0


def test_a_prompt_costs_its_tokens() -> None:
    run = simulate(trace((0, 100, 1)), ROOM, StepTime(0.0, 0.01, 0.0))
    assert run.answered[0].first_token == pytest.approx(1.0)


def test_too_long_a_request_is_refused_and_the_others_go_on() -> None:
    run = simulate(trace((0, 600, 4), (0, 10, 4)), ROOM, SECOND_A_STEP)
    assert (run.refused, len(run.answered)) == (1, 1)


def test_a_full_queue_turns_away() -> None:
    room = Room(1, 0, 1024, 512, 64, max_waiting=1, max_gap_seconds=0)
    run = simulate(trace(*[(0, 10, 4)] * 5), room, SECOND_A_STEP)
    assert run.refused == 3


def test_answers_that_outgrow_the_pool_are_suspended_and_all_end() -> None:
    room = Room(2, 0, 256, 256, 64, host_cells=1024, max_gap_seconds=0)
    run = simulate(trace((0, 60, 150), (0, 60, 150)), room, SECOND_A_STEP)
    assert run.num_suspensions > 0
    assert len(run.answered) == 2
    assert run.most_cells <= 256


def test_a_burst_with_one_prefix_computes_it_once() -> None:
    # A step for the 32 that both have, while the second waits; then one for what is each one's own.
    run = simulate(
        trace((0, 40, 3), (0, 40, 3), blocks=((1, 2, 3), (1, 2, 9))), ROOM, SECOND_A_STEP
    )
    assert [(a.number, a.num_reused, a.first_token) for a in run.answered] == [
        (0, 0, 2),
        (1, 32, 2),
    ]


def test_whoever_is_interactive_starts_before_the_rest_of_the_queue() -> None:
    room = replace(ROOM, slots=1, kept=1)
    ranks = [Priority.INTERACTIVE, Priority.BATCH, Priority.NORMAL, Priority.INTERACTIVE]
    queued = Trace(
        tuple(
            Traced(n, n / 8, Row(0, 10, 4, priority=priority)) for n, priority in enumerate(ranks)
        )
    )
    run = simulate(queued, room, SECOND_A_STEP)
    assert [answer.number for answer in run.answered] == [0, 3, 2, 1]
    assert [answer.total for answer in run.answered] == [4, 8 - 3 / 8, 12 - 2 / 8, 16 - 1 / 8]


def test_whoever_gives_up_frees_the_slot_and_is_no_answer() -> None:
    gone = Row(0, 10, 30, outcome="cancelled", total_ms=2500)
    load = Trace((Traced(0, 0, gone), Traced(1, 0, Row(0, 10, 4))))
    run = simulate(load, replace(ROOM, slots=1, kept=1), SECOND_A_STEP)
    # It leaves during the third step; the other one then has four of its own.
    assert run.left == 1
    assert [(answer.number, answer.total) for answer in run.answered] == [(1, 7)]


def test_an_answer_ends_where_it_was_allowed_to_end() -> None:
    load = Trace((Traced(0, 0, Row(0, 10, 30, max_tokens=5)),))
    (answer,) = simulate(load, ROOM, SECOND_A_STEP).answered
    assert (answer.num_written, answer.total) == (5, 5)


def test_a_step_takes_longer_the_more_cells_its_tokens_look_at() -> None:
    # The prompt looks at 1 + 2 + 3, then its next token at 4: a hundredth of a second each.
    (answer,) = simulate(
        trace((0, 3, 2)), ROOM, StepTime(1.0, 0.0, 0.0, attended_by_few=0.01)
    ).answered
    assert [answer.first_token, answer.total] == pytest.approx([1.06, 2.10])


def test_whether_a_load_is_in_time_is_known_without_its_end() -> None:
    load = trace(*[(0, 10, 4)] * 40)
    # Two at a time, four steps each: the last first token comes after 77 steps.
    assert is_in_time(load, ROOM, SECOND_A_STEP, 77)
    # Two of forty may be late, and are.
    assert is_in_time(load, ROOM, SECOND_A_STEP, 73)
    assert not is_in_time(load, ROOM, SECOND_A_STEP, 72)


@given(
    st.lists(
        st.tuples(st.floats(0, 30), st.integers(1, 120), st.integers(1, 40)),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 4),
)
def test_every_request_is_accounted_for_and_nobody_is_answered_before_it_came(
    rows: list[tuple[float, int, int]], slots: int
) -> None:
    room = Room(slots, 1, 512, 256, 64, host_cells=512, max_waiting=6)
    given_trace = trace(*sorted(rows))
    run = simulate(given_trace, room, StepTime(0.1, 0.01, 0.02))
    assert len(run.answered) + run.refused == len(rows)
    assert all(0 < a.first_token <= a.total for a in run.answered)
    assert run.busy_seconds <= run.seconds + 1e-6
    assert run.most_cells <= 512
    assert run.most_running <= slots


MORE_COPIES = ("--disk-cache 8GiB", 512)
TRIALS = Trials(MORE_COPIES, q8_0_cells=480)


def crowd(prompt: int, answer: int) -> Trace:
    return trace(*[(n * 2.0, prompt, answer) for n in range(12)])


def test_where_cells_run_short_memory_is_the_wall_and_smaller_types_help() -> None:
    room = Room(4, 0, 256, 256, 64, max_gap_seconds=0)
    advice = advise(crowd(100, 60), room, StepTime(0.1, 0.001, 0.0), TRIALS)
    assert advice.wall is Wall.MEMORY
    assert "--kv-type q8_0" in [cure.name for cure in advice.helpful]
    assert 0 < advice.paging_saves < 1


def test_where_steps_are_slow_and_cells_plenty_more_memory_is_no_cure() -> None:
    room = Room(4, 4, 65_536, 512, 64, max_gap_seconds=0)
    advice = advise(crowd(100, 60), room, StepTime(0.0, 0.02, 0.05), Trials(MORE_COPIES, 131_072))
    assert advice.wall is Wall.COMPUTE
    gains = {cure.name: cure.gain for cure in advice.cures}
    assert gains["--kv-type q8_0"] == gains["--disk-cache 8GiB"] == 0


def test_where_nobody_waits_there_is_no_wall() -> None:
    quiet = trace((0, 10, 4), (100, 10, 4), (200, 10, 4))
    assert advise(quiet, ROOM, SECOND_A_STEP, TRIALS).wall is Wall.NONE


def test_where_all_come_at_once_and_wait_speed_is_the_wall() -> None:
    # Twice the speed would halve all of it, the waiting included.
    room = Room(2, 2, 65_536, 512, 64, max_gap_seconds=0)
    crowded = trace(*[(0, 10, 20)] * 30)
    assert advise(crowded, room, SECOND_A_STEP, TRIALS).wall is Wall.COMPUTE
    assert wall_of(crowded, room, SECOND_A_STEP) is Wall.COMPUTE
    assert wall_of(crowded.apart(), room, SECOND_A_STEP) is Wall.NONE


def test_memory_for_everything_finds_again_what_few_sequence_ids_lost() -> None:
    room = Room(1, 1, 4096, 512, 64, max_gap_seconds=0)
    rows = [(100.0 * n, 48, 2) for n in range(6)]
    blocks = tuple((10 * (n % 3), 10 * (n % 3) + 1, 100 + n) for n in range(6))
    advice = advise(trace(*rows, blocks=blocks), room, SECOND_A_STEP, TRIALS)
    # Three conversations in turn, and one id to keep them: each is gone when it goes on.
    assert advice.planned.hit_rate == 0
    assert advice.hit_rate_boundless == pytest.approx(3 * 32 / (6 * 48))


def test_a_plan_becomes_the_room_of_a_simulation() -> None:
    made = plan()
    choice = replace_field(made.choice, kv_type_k="f16", kv_type_v="f16", kept=2)
    choice = replace_field(choice, host_cache_bytes=10 * bytes_per_cell(made, "f16"))
    found = room_of(replace_field(made, choice=choice))
    assert (found.slots, found.cells, found.batch) == (choice.slots, choice.cells, choice.batch)
    assert (found.host_cells, found.shares) == (10, True)
    on_disk = room_of(replace_field(made, choice=choice), 5 * bytes_per_cell(made, "f16"))
    assert on_disk == replace(found, host_cells=15)
    assert bytes_per_cell(made, "f16") == made.model.kv_bytes_per_cell["f16"]


def test_the_load_that_fits_lies_between_what_is_in_time_and_what_is_not() -> None:
    load, step_time = crowd(50, 20), StepTime(0.05, 0.002, 0.01)
    times = times_over(load, ROOM, step_time, first_token_goal=2.0)
    assert 1 / 16 < times < 16

    def worst(factor: float) -> float:
        run = simulate(load.faster(factor), ROOM, step_time)
        return percentile([answer.first_token for answer in run.answered], 95)

    assert worst(times) <= 2.0 < worst(times * 1.25)


def test_percentiles_are_linear_between_the_ranks() -> None:
    assert percentile([], 95) == 0
    assert percentile([3.0], 95) == 3
    assert percentile([0.0, 10.0], 50) == 5
