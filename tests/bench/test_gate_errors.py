"""How often the gate errs, on scores of which that is known."""

from __future__ import annotations

from msgspec.structs import replace

from bench.gate_errors import refusals, retrieval_refusals, table
from bench.held_out import ROUNDING, Tried
from edgekv.quality.measures import Measured, NeedleScore, ProseScore


def tried(
    *,
    falls: tuple[float, ...] = (0.0,) * 16,
    divergences: tuple[float, ...] = (0.001,) * 256,
    length: int = 512,
) -> Tried:
    """A trial of eight answers and eight tool calls, all found."""
    needles = tuple(
        NeedleScore(length, place / 16, place >= 8, -1.0, -1.0 - fall, True, True)
        for place, fall in enumerate(falls)
    )
    prose = ProseScore(length, 256, 0.001, 0.001, 1.0, -2.0, -2.0)
    num = len(divergences)
    measured = Measured(needles, (prose,))
    return Tried("m", "cpu", "way", "t", measured, divergences, (0.0,) * num, (True,) * num)


QUIET = tried()


def test_what_no_draw_can_change_is_always_or_never_refused() -> None:
    assert refusals([tried()], [QUIET], 1, draws=20) == 0.0
    assert refusals([tried(falls=(0.5,) * 16)], [QUIET], 1, draws=20) == 1.0


def test_a_type_on_the_limit_is_refused_by_some_draws_and_more_questions_settle_it() -> None:
    # One token in sixteen diverges: 0.019 nats on average, where the limit is 0.021.
    on_the_limit = tried(divergences=((0.29,) + (0.001,) * 15) * 16)
    assert refusals([on_the_limit], [QUIET], 1, draws=50) == 0.0, "every piece holds one such token"
    in_one_place = tried(divergences=(0.001,) * 240 + (0.29,) * 16)
    few = refusals([in_one_place], [QUIET], 1, draws=200)
    many = refusals([in_one_place], [QUIET], 16, draws=200)
    assert 0.1 < few < 0.6
    assert many < few


def test_a_question_is_drawn_with_what_rounding_did_to_it() -> None:
    """One answer that rounding moves as far is allowed for, however often it is drawn; rounding
    drawn apart would lack that answer in a third of the draws.
    """
    moved = tried(falls=(0.0,) * 3 + (8.0,) + (0.0,) * 12)
    assert refusals([moved], [moved], 1, draws=200) < 0.02
    assert refusals([moved], [QUIET], 1, draws=200) > 0.3


def test_of_kept_verdicts_only_the_questions_are_drawn() -> None:
    bad_prose = tried(divergences=(1.0,) * 256).measured
    assert retrieval_refusals(bad_prose, QUIET.measured, 1, draws=20) == 0.0
    harmed = tried(falls=(0.5,) * 16).measured
    assert retrieval_refusals(harmed, QUIET.measured, 1, draws=20) == 1.0
    moved = tried(falls=(0.0,) * 3 + (8.0,) + (0.0,) * 12).measured
    assert retrieval_refusals(moved, moved, 1, draws=200) < 0.02
    assert retrieval_refusals(moved, moved, 1, draws=200, apart=True) > 0.1


def test_a_text_is_judged_by_what_rounding_did_to_the_same_text() -> None:
    long = replace(tried(length=1024), way=ROUNDING, trial="1024")
    short = replace(tried(length=512), way=ROUNDING, trial="512")
    one_text = replace(tried(falls=(0.5,) * 16), trial="512")
    *_, line = table([long, short, one_text], draws=5)
    assert "100.0%" in line
