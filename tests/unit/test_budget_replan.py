"""The plan that an open model could change to: another size, and nothing else."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from edgekv.budget.dry_run import DryRun
from edgekv.budget.planner import Basis
from edgekv.budget.replan import is_another_size_of, replan
from edgekv.budget.wish import Wish
from edgekv.core.plan import Choice, MemoryPlan, ModelFacts, Opening
from tests.unit.budget_models import (
    GIB,
    MIB,
    RUNTIME_BYTES,
    WINDOWED,
    KnownAllocator,
    machine,
    model,
    plan,
    with_memory,
)

WINDOWS = model("gemma3", layers=18, context_train=8192, **WINDOWED)


def replanned(whole: Choice, available: int, facts: ModelFacts | None = None) -> MemoryPlan:
    """`whole` is open, and so much would be available if the engine held nothing."""
    facts = facts or model()
    run = DryRun(whole, asyncio.run(KnownAllocator(facts).dry_run(Opening(facts.path, whole))))
    basis = Basis(facts, (), machine(available), Wish(), RUNTIME_BYTES)
    return replan(basis, whole, run)


def test_where_the_first_plan_fits_it_is_the_first_plan() -> None:
    whole = plan().choice
    assert replanned(whole, 64 * GIB).choice == whole


@pytest.mark.parametrize("available", [440 * MIB, 300 * MIB])
def test_windows_stay_as_they_are_open_however_little_memory_there_is(available: int) -> None:
    whole = plan(facts=WINDOWS).choice
    assert whole.swa_full
    assert not plan(facts=WINDOWS, wish=with_memory(400 * MIB)).choice.swa_full
    smaller = replanned(whole, available, WINDOWS).choice
    assert smaller.cells < whole.cells
    assert is_another_size_of(smaller, whole)


@pytest.mark.parametrize("pair", [("q8_0", "f16"), ("f16", "q8_0"), ("q8_0", "q8_0")])
def test_cells_stay_readable(pair: tuple[str, str]) -> None:
    whole = plan(Wish(kv_type_k=pair[0], kv_type_v=pair[1])).choice
    smaller = replanned(whole, GIB).choice
    assert smaller.cells < whole.cells
    assert (smaller.kv_type_k, smaller.kv_type_v) == pair
    assert is_another_size_of(smaller, whole)


def test_there_are_no_more_slots_than_in_the_first_plan() -> None:
    whole = replace(plan().choice, context_length=2048, slots=2, kept=2, cells=64 * 1024)
    # Four slots, which a new plan would open, have room in it too.
    assert plan(with_memory(900 * MIB)).choice.slots == 4
    assert replanned(whole, GIB).choice.slots == 2


def test_conversations_are_no_longer_than_in_the_first_plan() -> None:
    whole = replace(plan().choice, context_length=2048, slots=1, kept=1, cells=128 * 1024)
    assert replanned(whole, GIB).choice.context_length == 2048


def test_where_nothing_fits_it_is_the_smallest_and_says_so() -> None:
    whole = plan().choice
    smallest = replanned(whole, 200 * MIB)
    assert not smallest.fits
    assert smallest.choice.cells == 512
    assert is_another_size_of(smallest.choice, whole)
