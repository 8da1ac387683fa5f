"""What was allocated against what was planned."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from edgekv.budget.differences import differences, spilled
from edgekv.core.plan import Allocation, BufferSize, CostLine, DeviceInfo, MemoryPlan
from tests.unit.budget_models import GIB, MIB, graphics, plan


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


ON_GPU = Allocation((BufferSize("CUDA0", "weights", 3 * GIB), BufferSize("CUDA0", "kv", GIB)))


@pytest.mark.parametrize("left", [4 * GIB + MIB, 5 * GIB, 9 * GIB])
def test_memory_that_the_device_did_not_lose_has_spilled(left: int) -> None:
    (sentence,) = spilled(ON_GPU, [graphics(7 * GIB)], [graphics(left)])
    assert "4.0 GiB were allocated there, but its free memory fell by" in sentence
    assert "fewer --gpu-layers" in sentence


@pytest.mark.parametrize("left", [0, 2 * GIB, 3 * GIB, 4 * GIB - 4 * MIB])
def test_memory_that_the_device_lost_has_not_spilled(left: int) -> None:
    assert list(spilled(ON_GPU, [graphics(7 * GIB)], [graphics(left)])) == []


@pytest.mark.parametrize("free", [None, 7 * GIB])
def test_of_memory_that_cannot_be_read_or_is_the_hosts_nothing_is_said(free: int | None) -> None:
    device = DeviceInfo("CUDA0", "cuda", "GPU", 8 * GIB, free, unified=free is not None)
    assert list(spilled(ON_GPU, [device], [device])) == []


def test_a_little_that_a_desktop_gave_back_is_no_spill() -> None:
    little = Allocation((BufferSize("CUDA0", "weights", 300 * MIB),))
    assert list(spilled(little, [graphics(GIB)], [graphics(GIB - 100 * MIB)])) == []
