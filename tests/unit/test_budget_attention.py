"""Flash attention saves memory; a processor that has enough computes faster without it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from edgekv.budget.dry_run import DryRun
from edgekv.budget.planner import Basis
from edgekv.budget.replan import replan
from edgekv.budget.wish import Wish
from edgekv.core.plan import Opening
from edgekv.errors import InvalidValue
from tests.unit.budget_models import (
    GIB,
    MIB,
    PLENTY,
    RUNTIME_BYTES,
    WINDOWED,
    KnownAllocator,
    graphics,
    machine,
    model,
    plan,
    with_memory,
)


def with_flash(wish: Wish, flash_attention: bool) -> Wish:
    return replace(wish, flash_attention=flash_attention)


@pytest.mark.parametrize("mebibytes", range(400, 3000, 100))
def test_scores_are_written_where_they_cost_nothing_that_people_need(mebibytes: int) -> None:
    wish = with_memory(mebibytes * MIB)
    choice, thrifty = plan(wish).choice, plan(with_flash(wish, True)).choice
    assert choice.slots == thrifty.slots
    assert min(choice.context_length, 8192) == min(thrifty.context_length, 8192)
    assert choice.kv_type_k == thrifty.kv_type_k
    assert choice.flash_attention or choice.cells >= choice.slots * 8192


def test_little_memory_takes_flash_attention_and_plenty_does_not() -> None:
    assert plan(with_memory(700 * MIB)).choice.flash_attention
    assert not plan(with_memory(3 * GIB)).choice.flash_attention


def test_windows_that_are_kept_whole_are_seen_without_flash_attention_too() -> None:
    windowed = model("gemma3", **WINDOWED)
    assert not plan(facts=windowed).choice.flash_attention


def test_a_graphics_device_computes_with_flash_attention() -> None:
    assert plan(gpu=graphics(16 * GIB)).choice.flash_attention


def test_quantised_values_take_flash_attention_and_quantised_keys_do_not() -> None:
    assert plan(Wish(kv_type_k="q8_0", kv_type_v="q8_0")).choice.flash_attention
    assert not plan(Wish(kv_type_k="q8_0", kv_type_v="f16")).choice.flash_attention


def test_a_kind_of_model_whose_scores_no_formula_knows_takes_flash_attention() -> None:
    assert plan(facts=model(attention__head_count=[])).choice.flash_attention


def test_what_is_asked_for_is_kept_whatever_it_costs() -> None:
    assert plan(Wish(flash_attention=True)).choice.flash_attention
    short = plan(with_flash(with_memory(700 * MIB), False)).choice
    assert not short.flash_attention
    assert short.cells < 4 * 8192


def test_no_memory_helps_to_read_quantised_values_without_flash_attention() -> None:
    with pytest.raises(InvalidValue, match="--flash-attention on, or --kv-type q8_0/f16"):
        plan(Wish(flash_attention=False, kv_type_k="q8_0", kv_type_v="q8_0"))


def test_an_open_model_shrinks_without_turning_its_values_round() -> None:
    facts = model()
    library = KnownAllocator(facts)
    whole = plan(with_memory(3 * GIB)).choice
    assert not whole.flash_attention
    opened = DryRun(whole, asyncio.run(library.dry_run(Opening(facts.path, whole))))
    tight = Basis(facts, (), machine(600 * MIB), Wish(), RUNTIME_BYTES)
    smaller = replan(tight, whole, opened)
    assert smaller.fits
    assert not smaller.choice.flash_attention
    assert smaller.choice.cells < whole.cells
    assert replan(replace(tight, machine=PLENTY), whole, opened).choice.cells == whole.cells
