"""How large a step may be while others wait for their next token."""

from __future__ import annotations

from edgekv.engine.answer_lengths import FIRST_GUESS, AnswerLengths
from edgekv.engine.pacing import FEWEST_TOKENS, FIRST_TOKENS, Pace

BATCH = 512


def taught(*, answers_seconds: float, token_seconds: float, max_gap: float = 0.25) -> Pace:
    pace = Pace(max_gap)
    pace.learn(0, 4, answers_seconds)
    pace.learn(100, 4, answers_seconds + 100 * token_seconds)
    return pace


def test_prompts_get_what_the_answers_leave_of_the_gap() -> None:
    assert taught(answers_seconds=0.05, token_seconds=0.002).limit(BATCH) == 100


def test_the_batch_bounds_a_fast_machine() -> None:
    assert taught(answers_seconds=0.001, token_seconds=0.00001).limit(BATCH) == BATCH


def test_a_slow_machine_still_goes_on() -> None:
    assert taught(answers_seconds=0.5, token_seconds=0.1).limit(BATCH) == FEWEST_TOKENS
    assert taught(answers_seconds=0.5, token_seconds=0.1).limit(3) == 3


def test_before_anything_is_known_a_step_is_small() -> None:
    assert Pace(0.25).limit(BATCH) == FIRST_TOKENS


def test_without_a_gap_to_keep_nothing_is_held_back() -> None:
    assert taught(answers_seconds=9.0, token_seconds=1.0, max_gap=0).limit(BATCH) == BATCH


def test_a_slower_step_counts_at_once_and_a_quicker_one_by_and_by() -> None:
    pace = taught(answers_seconds=0.05, token_seconds=0.002)
    pace.learn(100, 4, 0.05 + 100 * 0.004)
    assert pace.limit(BATCH) == 50
    pace.learn(50, 4, 0.05 + 50 * 0.002)
    assert 50 < pace.limit(BATCH) < 100


def test_a_step_without_answers_teaches_what_a_prompt_token_takes() -> None:
    pace = Pace(0.25)
    pace.learn(500, 0, 1.0)
    assert pace.limit(BATCH) == 125


def test_an_answer_is_expected_to_get_as_long_as_those_that_got_so_far() -> None:
    lengths = AnswerLengths()
    assert lengths.remaining(0) == FIRST_GUESS
    for length in (10, 20, 30):
        lengths.learn(length)
    assert lengths.remaining(0) == 20
    assert lengths.remaining(15) == 10  # 20 and 30 got so far: 5 and 15 more
    assert lengths.remaining(29) == 1
    lengths.learn(31)
    assert lengths.remaining(0) == 23  # 91 in four answers: rather one more than one too few


def test_an_answer_that_outlived_all_others_is_expected_to_double() -> None:
    lengths = AnswerLengths()
    lengths.learn(10)
    assert lengths.remaining(500) == 500
    assert lengths.remaining(10) == FIRST_GUESS
