"""Flash attention saves memory and passes over cells of others; some do without it all the same."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from edgekv.budget.dry_run import DryRun
from edgekv.budget.planner import Basis
from edgekv.budget.replan import replan
from edgekv.budget.wish import Wish
from edgekv.core.plan import ModelFacts, Opening
from edgekv.errors import InvalidValue
from tests.unit.budget_models import (
    GIB,
    MIB,
    PLENTY,
    RUNTIME_BYTES,
    WINDOWED,
    KnownAllocator,
    machine,
    model,
    plan,
    with_memory,
)

OFF = Wish(flash_attention=False)


@pytest.mark.parametrize("facts", [model(), model("gemma3", **WINDOWED)], ids=["whole", "windows"])
def test_a_plan_takes_flash_attention_unless_it_is_not_wanted(facts: ModelFacts) -> None:
    assert plan(facts=facts).choice.flash_attention
    assert not plan(OFF, facts=facts).choice.flash_attention


def test_scores_take_memory_from_the_pool() -> None:
    thrifty = with_memory(1500 * MIB)
    plain = replace(thrifty, flash_attention=False)
    assert plan(plain).choice.cells < plan(thrifty).choice.cells


def test_without_flash_attention_fewer_tokens_are_computed_at_once() -> None:
    assert plan(OFF).choice.ubatch == 128
    assert not any("tokens at a time" in sentence for sentence in plan(OFF).limits)


def test_without_flash_attention_values_stay_whole_however_little_memory_there_is() -> None:
    for mebibytes in range(400, 700, 20):
        wish = replace(with_memory(mebibytes * MIB), flash_attention=False)
        assert plan(wish).choice.kv_type_v == "f16"


def test_quantised_keys_need_no_flash_attention() -> None:
    wish = Wish(flash_attention=False, kv_type_k="q8_0", kv_type_v="f16")
    assert not plan(wish).choice.flash_attention


def test_no_memory_helps_to_read_quantised_values_without_flash_attention() -> None:
    with pytest.raises(InvalidValue, match="--flash-attention on, or --kv-type q8_0/f16"):
        plan(Wish(flash_attention=False, kv_type_k="q8_0", kv_type_v="q8_0"))


def test_an_open_model_shrinks_without_turning_its_values_round() -> None:
    facts = model()
    library = KnownAllocator(facts)
    whole = plan(replace(with_memory(3 * GIB), flash_attention=False)).choice
    assert not whole.flash_attention
    opened = DryRun(whole, asyncio.run(library.dry_run(Opening(facts.path, whole))))
    tight = Basis(facts, (), machine(600 * MIB), Wish(), RUNTIME_BYTES)
    smaller = replan(tight, whole, opened)
    assert smaller.fits
    assert not smaller.choice.flash_attention
    assert smaller.choice.cells < whole.cells
    assert replan(replace(tight, machine=PLENTY), whole, opened).choice.cells == whole.cells
