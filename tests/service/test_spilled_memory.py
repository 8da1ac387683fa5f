"""What is said when a graphics device's memory went to the host's instead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgekv.budget.wish import Wish
from edgekv.core.frames import Described, Opened
from edgekv.core.plan import MemoryPlan, Opening
from edgekv.service.ground import Ground
from edgekv.service.planning import held_to
from tests.unit.budget_models import (
    GIB,
    RUNTIME_BYTES,
    KnownAllocator,
    graphics,
    machine,
    model,
    plan,
)

FACTS = model(weight_bytes=256 * 1024**2)
EMPTY = graphics(7 * GIB, total=8 * GIB)


def opened(*, spills: bool, left: int) -> MemoryPlan:
    """The plan of a model that was opened on a device, which had so much left then."""
    host = replace(machine(8 * GIB), spills=spills)
    made = plan(Wish(), FACTS, host, EMPTY)
    allocation = KnownAllocator(FACTS, EMPTY.id).allocation(Opening(FACTS.path, made.choice))
    ground = Ground(host, Described(1, FACTS, (EMPTY,), RUNTIME_BYTES))
    after = graphics(left, total=8 * GIB)
    return held_to(ground, Wish(), made, Opened(1, allocation, 0, (EMPTY,), (after,)))


def test_memory_that_spilled_is_the_first_limit_and_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = opened(spills=True, left=7 * GIB)
    assert made.limits[0].startswith("Memory of CUDA0 spilled: ")
    assert made.limits[0] in caplog.text


@pytest.mark.parametrize(("spills", "left"), [(True, GIB), (False, 7 * GIB)])
def test_memory_that_the_device_gave_or_that_nothing_moves_is_not(
    spills: bool, left: int, caplog: pytest.LogCaptureFixture
) -> None:
    made = opened(spills=spills, left=left)
    assert not any("spilled" in sentence for sentence in made.limits)
    assert caplog.text == ""
