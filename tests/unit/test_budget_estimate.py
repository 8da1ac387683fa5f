"""What a choice would allocate, foreseen from a dry run of another one."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from edgekv.budget.dry_run import DryRun
from edgekv.budget.estimate import estimate
from edgekv.budget.formulas import Pool, attention_bytes, embedding_bytes, output_bytes
from edgekv.budget.geometry import Geometry, read_geometry
from edgekv.core.plan import Allocation, BufferSize, Choice, ModelFacts, Opening
from tests.unit.budget_models import HYBRID, MIB, WINDOWED, KnownAllocator, model

SMALL = Choice(
    context_length=1024,
    slots=1,
    cells=2048,
    kv_type_k="f16",
    kv_type_v="f16",
    gpu_layers=0,
    batch=128,
    ubatch=128,
    swa_full=True,
    flash_attention=True,
)
CHANGES: dict[str, dict[str, object]] = {
    "more cells": {"cells": 8192},
    "more slots": {"slots": 8, "kept": 4},
    "smaller keys": {"kv_type_k": "q8_0"},
    "smaller values": {"kv_type_v": "q4_0"},
    "bounded windows": {"swa_full": False},
    "more tokens at once": {"batch": 512, "ubatch": 512},
}
MODELS = {
    "alike": model(),
    "windows": model("gemma3", **WINDOWED),
    "state": model("qwen35", **HYBRID),
}


def geometry_of(facts: ModelFacts) -> Geometry:
    geometry = read_geometry(facts.metadata)
    assert geometry is not None
    return geometry


def dry_run(facts: ModelFacts, choice: Choice) -> DryRun:
    opening = Opening(facts.path, choice)
    return DryRun(choice, asyncio.run(KnownAllocator(facts).dry_run(opening)))


def foreseen(run: DryRun, facts: ModelFacts, choice: Choice) -> Allocation:
    return estimate(run, geometry_of(facts), facts.num_vocab, choice)


@pytest.mark.parametrize("facts", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_all_but_what_is_computed_in_is_foreseen_to_the_byte(
    facts: ModelFacts, change: dict[str, object]
) -> None:
    wanted = replace(SMALL, **change)
    told = dry_run(facts, wanted).allocation
    guessed = foreseen(dry_run(facts, SMALL), facts, wanted)
    for label in ("weights", "kv", "recurrent", "output"):
        assert guessed.total(label) == told.total(label)


def test_of_the_choice_that_was_asked_about_all_is_known() -> None:
    buffers = (
        BufferSize("CPU", "weights", 5, mapped=True, buffer_type="CPU_Mapped"),
        BufferSize("CPU", "weights", 3, buffer_type="CPU_REPACK"),
        BufferSize("CPU", "compute", 7 * MIB, estimated=True),
    )
    run = DryRun(SMALL, Allocation(buffers))
    assert foreseen(run, model(), SMALL) == run.allocation


def test_half_as_many_tokens_at_once_need_half_of_the_masks_and_of_the_rest() -> None:
    facts = model()
    masks = attention_bytes(geometry_of(facts), Pool.of(SMALL))
    compute = BufferSize("CPU", "compute", masks + 64 * MIB)
    run = DryRun(SMALL, Allocation((compute,)))
    half = foreseen(run, facts, replace(SMALL, batch=64, ubatch=64))
    assert half.total("compute") == (masks + 64 * MIB) // 2


def test_where_the_layers_need_little_the_logits_decide_how_much_is_computed_in() -> None:
    facts = model(num_vocab=262_144)
    run = DryRun(SMALL, Allocation((BufferSize("CPU", "compute", MIB),)))
    many = replace(SMALL, slots=100)
    assert foreseen(run, facts, many).total("compute") == output_bytes(262_144, 101)


def test_a_context_for_embeddings_is_counted_once() -> None:
    facts = model()
    embeds = replace(SMALL, embedding_cells=2048)
    without, with_one = dry_run(facts, SMALL), dry_run(facts, embeds)
    new = foreseen(without, facts, embeds).total("embedding")
    assert new == embedding_bytes(geometry_of(facts), facts.num_vocab, 2048)
    larger = replace(embeds, cells=4096)
    known = with_one.allocation.total("embedding")
    assert foreseen(with_one, facts, larger).total("embedding") == known
    assert foreseen(with_one, facts, SMALL).total("embedding") == 0
