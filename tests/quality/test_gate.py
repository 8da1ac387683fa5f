"""What the gate accepts and refuses, on scores worked by hand."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from edgekv.core.comparison import Likeness
from edgekv.quality.gate import MOST_FALL, fall_limit, is_settled, objections
from edgekv.quality.measures import (
    Measured,
    NeedleScore,
    ProseScore,
    needle_score,
    prose_score,
    together,
)

GOOD_PROSE = ProseScore(1000, 200, 0.004, 0.05, 0.97, -2.0, -2.005)
QUIET = ProseScore(1000, 200, 0.0, 0.0, 1.0, -2.0, -2.0)
"""Rounding that does nothing."""
NOISY = ProseScore(1000, 200, 0.026, 0.29, 0.94, -2.0, -1.96)
"""As gemma-3-270m has it on a processor."""


def needles(
    num: int, *, lost: int = 0, gained: int = 0, fall: float = 0.0, as_json: bool = False
) -> tuple[NeedleScore, ...]:
    """Scores of which f16 found all but those gained."""
    return tuple(
        NeedleScore(1000, i / num, as_json, -1.0, -1.0 - fall, i >= gained, i < num - lost)
        for i in range(num)
    )


def refused(measured_: Measured, noise: ProseScore = QUIET) -> tuple[str, ...]:
    """What is objected where f16 in other pieces finds every answer it finds, with that noise at
    every length.
    """
    prose = tuple(replace(noise, length=score.length) for score in measured_.prose)
    noises = Measured((*needles(8), *needles(8, as_json=True)), prose)
    return objections(measured_, noises)


def measured(*scores: NeedleScore, prose: ProseScore = GOOD_PROSE) -> Measured:
    rest = () if any(s.as_json for s in scores) else needles(8, as_json=True)
    words = () if any(not s.as_json for s in scores) else needles(8)
    return Measured((*scores, *rest, *words), (prose,))


def test_the_same_answers_and_the_same_predictions_pass() -> None:
    assert refused(measured(*needles(8))) == ()


def test_one_answer_lost_is_chance_and_two_are_not() -> None:
    assert refused(measured(*needles(8, lost=1))) == ()
    (objection,) = refused(measured(*needles(8, lost=2)))
    assert objection == "it loses 2 of 8 answers that f16 finds, and gains 0"


def test_where_rounding_turns_answers_too_a_few_more_may_be_lost() -> None:
    turned = (*needles(16, lost=1, gained=1), *needles(16, as_json=True))
    noise = Measured(turned, (QUIET,))
    assert objections(measured(*needles(16, lost=3)), noise) == ()
    assert objections(measured(*needles(16, lost=4)), noise)


@pytest.mark.parametrize("turned", [needles(16, lost=1), needles(16, gained=1)])
def test_an_answer_that_rounding_finds_allows_for_as_much_as_one_that_it_loses(
    turned: tuple[NeedleScore, ...],
) -> None:
    noise = Measured((*turned, *needles(16, as_json=True)), (QUIET,))
    assert objections(measured(*needles(16, lost=3)), noise) == ()
    assert objections(measured(*needles(16, lost=4)), noise)


def test_what_rounding_does_to_texts_that_a_type_never_read_excuses_nothing() -> None:
    longer = tuple(replace(score, length=4000) for score in needles(16, lost=9))
    noise = Measured(
        (*needles(16), *needles(16, as_json=True), *longer), (QUIET, replace(QUIET, length=4000))
    )
    assert objections(measured(*needles(16, lost=3)), noise)


def test_what_is_gained_makes_up_for_what_is_lost() -> None:
    assert refused(measured(*needles(8, lost=3, gained=2))) == ()


def test_of_many_answers_one_in_twenty_may_be_lost() -> None:
    assert refused(measured(*needles(100, lost=5))) == ()
    assert refused(measured(*needles(100, lost=6)))


def test_answers_that_get_less_likely_are_refused_even_if_none_is_lost() -> None:
    assert refused(measured(*needles(8, fall=0.2))) == ()
    (objection,) = refused(measured(*needles(8, fall=0.5)))
    assert "0.50 nats less likely" in objection


def test_tool_calls_are_judged_apart_from_answers() -> None:
    (objection,) = refused(measured(*needles(8, lost=2, as_json=True)))
    assert "tool calls" in objection


def test_each_figure_of_prose_has_a_limit_of_its_own() -> None:
    bad = {
        "diverge": ProseScore(1000, 200, 0.03, 0.05, 0.97, -2.0, -2.0),
        "one prediction in a hundred": ProseScore(1000, 200, 0.004, 0.5, 0.97, -2.0, -2.0),
        "likeliest": ProseScore(1000, 200, 0.004, 0.05, 0.94, -2.0, -2.0),
        "perplexity": ProseScore(1000, 200, 0.004, 0.05, 0.97, -2.0, -2.1),
    }
    for word, prose in bad.items():
        (objection,) = refused(measured(*needles(8), prose=prose))
        assert word in objection


def test_prose_is_refused_where_it_is_long_although_it_is_fine_where_it_is_short() -> None:
    far = ProseScore(8000, 200, 0.2, 0.25, 0.95, -2.0, -2.0)
    parts = [measured(*needles(8)), measured(*needles(8), prose=far)]
    (objection,) = refused(together(parts))
    assert "after 8,000 tokens" in objection


def test_what_rounding_does_as_well_is_not_held_against_a_type() -> None:
    like_noise = ProseScore(1000, 200, 0.031, 0.31, 0.93, -2.0, -2.05)
    assert refused(measured(*needles(8), prose=like_noise), NOISY) == ()
    assert len(refused(measured(*needles(8), prose=like_noise))) == 4
    worse = ProseScore(1000, 200, 0.0585, 0.6, 0.88, -2.0, -2.1)
    assert len(refused(measured(*needles(8), prose=worse), NOISY)) == 4


def test_prose_of_each_length_is_held_against_the_noise_of_that_length() -> None:
    uneven = replace(GOOD_PROSE, length=4000, mean_divergence=0.03)
    read = Measured((*needles(8), *needles(8, as_json=True)), (GOOD_PROSE, uneven))
    noisy = replace(QUIET, mean_divergence=0.026)
    asked = (*needles(8), *needles(8, as_json=True))
    assert not objections(read, Measured(asked, (QUIET, replace(noisy, length=4000))))
    assert objections(read, Measured(asked, (noisy, replace(QUIET, length=4000))))


def test_answers_that_rounding_makes_less_likely_too_are_allowed_for() -> None:
    up_and_down = (*needles(4, fall=0.4), *needles(4, fall=-0.4))
    noise = Measured((*up_and_down, *needles(8, as_json=True)), (QUIET,))
    assert objections(measured(*needles(8, fall=0.5)), noise) == ()
    (objection,) = objections(measured(*needles(8, fall=0.6)), noise)
    assert "0.60 nats less likely on average, more than 0.53" in objection


def test_the_more_answers_there_are_the_less_is_put_down_to_rounding() -> None:
    few, many = needles(4, fall=0.4), needles(64, fall=0.4)
    assert fall_limit(many) - MOST_FALL == pytest.approx((fall_limit(few) - MOST_FALL) / 4)


def test_bad_prose_settles_a_refusal_and_lost_answers_do_not() -> None:
    noise = Measured(needles(8), (QUIET,))
    bad = ProseScore(1000, 200, 0.03, 0.05, 0.97, -2.0, -2.0)
    assert is_settled(measured(*needles(8), prose=bad), noise)
    assert not is_settled(measured(*needles(8, lost=8)), noise)
    assert not is_settled(Measured(), noise)


def test_scores_are_taken_from_a_likeness() -> None:
    likeness = Likeness(
        reference_logprobs=(-0.5, -1.5),
        logprobs=(-1.0, -2.0),
        reference_hits=(True, True),
        hits=(True, False),
        agreements=(True, False),
        divergences=(0.01, 0.03),
    )
    needle = needle_score(700, 0.25, likeness, as_json=False)
    assert needle == NeedleScore(700, 0.25, False, -2.0, -3.0, True, False)
    prose = prose_score(700, likeness)
    assert (prose.mean_divergence, prose.p99_divergence, prose.agreement) == (0.02, 0.03, 0.5)
    assert round(prose.perplexity_ratio, 4) == 1.6487, "e to the power of 0.5"


@pytest.mark.parametrize(("num_bad", "p99"), [(1, 0.0), (2, 1.0), (100, 1.0)])
def test_one_prediction_in_a_hundred_is_worse_than_all_others(num_bad: int, p99: float) -> None:
    likeness = Likeness(
        reference_logprobs=(-1.0,) * 200,
        logprobs=(-1.0,) * 200,
        reference_hits=(True,) * 200,
        hits=(True,) * 200,
        agreements=(True,) * 200,
        divergences=(1.0,) * num_bad + (0.0,) * (200 - num_bad),
    )
    assert prose_score(700, likeness).p99_divergence == p99
