"""What was allocated against what was planned."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from edgekv.budget.differences import differences
from edgekv.core.plan import CostLine, MemoryPlan
from tests.unit.budget_models import MIB, plan


def changed(made: MemoryPlan, label: str, factor: float, *, exact: bool = True) -> MemoryPlan:
    def other(line: CostLine) -> CostLine:
        if line.label != label:
            return line
        return replace(line, bytes=int(line.bytes * factor), exact=exact)

    return replace(made, lines=tuple(map(other, made.lines)))


def test_a_plan_that_was_kept_has_no_differences() -> None:
    made = plan()
    assert differences(made, made, made.total_bytes) == ()


@pytest.mark.parametrize("factor", [0.9, 1.03, 2.0])
def test_a_line_that_is_off_is_told_with_both_numbers(factor: float) -> None:
    made = plan()
    (sentence,) = differences(made, changed(made, "kv", factor), 0)
    assert "kv takes" in sentence
    assert "4.0 GiB were planned" in sentence


@pytest.mark.parametrize("factor", [0.985, 1.015])
def test_two_in_a_hundred_are_let_pass(factor: float) -> None:
    made = plan()
    assert differences(made, changed(made, "kv", factor), 0) == ()


def test_a_line_that_nobody_planned_is_told() -> None:
    made = plan()
    extra = CostLine("CUDA0", "compute", 400 * MIB, "a surprise")
    (sentence,) = differences(made, replace(made, lines=(*made.lines, extra)), 0)
    assert "on CUDA0, and 0 B were planned" in sentence


def test_an_estimate_may_be_too_high_but_not_too_low() -> None:
    made = plan()
    estimated = changed(made, "compute", 1.0, exact=False)
    assert differences(estimated, changed(made, "compute", 0.5), 0) == ()
    assert len(differences(estimated, changed(made, "compute", 1.5), 0)) == 1


def test_an_engine_that_holds_more_than_the_plan_is_told() -> None:
    made = plan()
    (sentence,) = differences(made, made, int(made.total_bytes * 1.1))
    assert "holds" in sentence
