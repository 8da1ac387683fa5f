"""What an engine that ran out of memory gets, and when it gets more again."""

from __future__ import annotations

from edgekv.budget.trust import SECONDS_OF_QUIET, Trust

WHOLE = 1000


def test_a_shortage_costs_a_fifth_of_what_ran_out() -> None:
    assert Trust().after_shortage(WHOLE, 5.0) == Trust(800, 5.0)


def test_nothing_is_given_back_before_the_quiet_is_over() -> None:
    trust = Trust(500, since_seconds=100.0)
    assert trust.after_quiet(WHOLE, 100.0 + SECONDS_OF_QUIET - 1) is trust
    grown = trust.after_quiet(WHOLE, 100.0 + SECONDS_OF_QUIET)
    assert grown.most_bytes == 626
    assert grown.since_seconds == 100.0 + SECONDS_OF_QUIET


def test_nearly_all_is_all() -> None:
    assert Trust(759).after_quiet(WHOLE, SECONDS_OF_QUIET).most_bytes == 949
    assert Trust(760).after_quiet(WHOLE, SECONDS_OF_QUIET).most_bytes is None


def test_pressure_begins_the_quiet_anew() -> None:
    pressed = Trust(500).under_pressure(599.0)
    assert pressed.after_quiet(WHOLE, 601.0) is pressed
    assert pressed.after_quiet(WHOLE, 1199.0).most_bytes == 626


def test_the_quiet_doubles_only_where_a_plan_that_grew_ran_out_again() -> None:
    first = Trust().after_shortage(WHOLE, 0.0)
    again = first.after_shortage(800, 1.0)
    assert again.quiet_seconds == SECONDS_OF_QUIET
    grown = again.after_quiet(WHOLE, 1.0 + SECONDS_OF_QUIET)
    twice = grown.after_shortage(801, 1000.0)
    assert twice.quiet_seconds == 2 * SECONDS_OF_QUIET
    assert twice.after_shortage(640, 1001.0).quiet_seconds == 2 * SECONDS_OF_QUIET
