"""What a step has to do, and prices found again in times that were made of them."""

from __future__ import annotations

from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgekv.traffic.step_time import NO_WORK, Piece, StepTime, Work, fitted, work_of

PRICES = StepTime(0.02, 0.005, 0.008, 4e-6, 2e-6, 1e-6, 5e-7)


def test_a_token_looks_at_all_before_it_and_at_itself() -> None:
    assert Piece(0, 3).attended == 1 + 2 + 3
    assert Piece(100, 2).attended == 101 + 102


def test_a_step_of_few_tokens_is_told_from_one_of_many() -> None:
    few = work_of([Piece(100, 1), Piece(0, 3)], cells_used=500)
    assert few == Work(1, 3, 1, 101 + 6, 0, 500, 4 * 500)
    many = work_of([Piece(100, 1), Piece(0, 63)], cells_used=500)
    assert many == Work(1, 63, 1, 0, 101 + 63 * 32, 500, 64 * 500)


def test_work_adds_up() -> None:
    one = work_of([Piece(0, 3)], 3)
    assert NO_WORK + one + one == Work(2, 6, 0, 12, 0, 6, 18)
    assert PRICES.seconds(one + one) == pytest.approx(2 * PRICES.seconds(one))


def test_a_machine_of_half_the_speed_takes_twice_as_long() -> None:
    work = work_of([Piece(10, 100)], 300)
    assert PRICES.times(2).seconds(work) == pytest.approx(2 * PRICES.seconds(work))


MEASURED = [
    work_of([Piece(0, 16)], 16),
    work_of([Piece(0, 64)], 200),
    work_of([Piece(0, 512)], 600),
    work_of([Piece(2000, 16)], 2100),
    work_of([Piece(2000, 64)], 2700),
    work_of([Piece(2000, 512)], 3200),
    work_of([Piece(30, 1)], 40),
    work_of([Piece(30, 1)], 3000),
    work_of([Piece(2000, 1)], 3000),
    work_of([Piece(30, 1)] * 4, 3000),
    work_of([Piece(30, 1)] * 8, 3100),
]


def test_prices_are_found_again_in_what_was_measured() -> None:
    found = fitted([(work, PRICES.seconds(work)) for work in MEASURED])
    for work in MEASURED:
        assert found.seconds(work) == pytest.approx(PRICES.seconds(work), rel=1e-4)
    beyond = work_of([Piece(6000, 40), Piece(100, 1)], 7000)
    assert found.seconds(beyond) == pytest.approx(PRICES.seconds(beyond), rel=1e-3)


@given(st.lists(st.floats(-0.1, 0.1), min_size=len(MEASURED), max_size=len(MEASURED)))
def test_nothing_takes_less_than_no_time_however_uneven_the_measurements(
    errors: list[float],
) -> None:
    uneven = zip(MEASURED, errors, strict=True)
    found = fitted([(work, PRICES.seconds(work) * (1 + error)) for work, error in uneven])
    for work in MEASURED:
        assert 0 < found.seconds(work) == pytest.approx(PRICES.seconds(work), rel=0.35)


def test_what_would_cost_less_than_nothing_costs_nothing() -> None:
    """Times that fall by chance while the pool fills do not make full pools quick."""
    steps = [Work(1, 0, 1, 0, 0, cells, 0) for cells in (100, 200, 300)]
    prices = fitted(list(zip(steps, (1.0, 0.9, 0.8), strict=True)))
    assert min(astuple(prices)) == 0
    assert prices.cells == 0


def test_what_was_never_measured_costs_nothing() -> None:
    found = fitted([(work_of([Piece(0, n)], n), 0.1 + 0.01 * n) for n in (8, 16, 32)])
    assert found.answer == found.attended_by_many == 0
    assert found.seconds(work_of([Piece(0, 24)], 24)) == pytest.approx(0.34, rel=0.01)


def test_times_must_be_times() -> None:
    with pytest.raises(ValueError, match="positive"):
        fitted([(MEASURED[0], 0.0)])
    with pytest.raises(ValueError, match="one at least"):
        fitted([])
