"""Room for embeddings, beside everything else that a plan wants."""

from __future__ import annotations

import pytest

from edgekv.budget.formulas import (
    embedding_bytes,
    kv_bytes_per_cell,
    output_bytes,
    state_bytes,
)
from edgekv.budget.geometry import read_geometry
from edgekv.budget.wish import Wish
from edgekv.errors import DoesNotFit, InvalidValue
from tests.unit.budget_models import HYBRID, MIB, machine, model, plan, with_memory


def test_there_is_room_for_them_where_there_is_plenty() -> None:
    made = plan(Wish(embeddings=None))
    assert made.choice.embedding_cells == 2048
    assert any(line.label == "embedding" for line in made.lines)


@pytest.mark.parametrize("mebibytes", range(340, 900, 20))
def test_by_themselves_they_cost_no_context_that_people_need_no_slot_and_no_precision(
    mebibytes: int,
) -> None:
    budget = mebibytes * MIB
    auto, never = (plan(with_memory(budget, embeddings=x)).choice for x in (None, False))
    assert min(auto.context_length, 8192) == min(never.context_length, 8192)
    kept = ("slots", "kept", "kv_type_k", "kv_type_v", "ubatch", "swa_full")
    assert [getattr(auto, x) for x in kept] == [getattr(never, x) for x in kept]


def test_where_they_have_no_room_the_plan_says_how_to_get_it() -> None:
    made = plan(with_memory(360 * MIB, embeddings=None))
    assert made.choice.embedding_cells == 0
    assert any("--embeddings" in sentence for sentence in made.limits)
    assert plan(with_memory(440 * MIB, embeddings=True)).choice.embedding_cells == 2048


def test_asked_for_and_not_to_be_had_they_are_refused() -> None:
    with pytest.raises(DoesNotFit, match="leave out --embeddings"):
        plan(Wish(embeddings=True), host=machine(450 * MIB))


def test_a_model_that_ranks_texts_gives_none() -> None:
    ranker = model(pooling_type=4)
    assert plan(Wish(embeddings=None), ranker).choice.embedding_cells == 0
    with pytest.raises(InvalidValue, match="ranks texts"):
        plan(Wish(embeddings=True), ranker)


def test_a_recurrent_model_keeps_the_state_of_the_text_that_is_embedded() -> None:
    hybrid = read_geometry(model("qwen35", **HYBRID).metadata)
    assert hybrid is not None
    cells = 2048 * kv_bytes_per_cell(hybrid)["f16"]
    logits = output_bytes(32_000, 16)
    needed = cells + state_bytes(hybrid, num_ids=1) + 2 * logits
    assert embedding_bytes(hybrid, 32_000, 2048) == needed


def test_what_may_stay_unfilled_is_a_twentieth_with_the_room_for_schemas() -> None:
    chat, server = plan(Wish()), plan(Wish(grammars=True))
    sizes = [
        sum(line.bytes for line in made.lines if line.label == "host_cache")
        for made in (chat, server)
    ]
    schemas = 14 * MIB + model().num_vocab * 220
    assert schemas * 0.9 <= sizes[0] - sizes[1] <= schemas
