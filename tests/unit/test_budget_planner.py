"""A plan keeps the wishes and fits, or says what would."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgekv.budget.geometry import read_geometry
from edgekv.budget.ledger import MOVED_CELLS, growth_bytes
from edgekv.budget.planner import Basis, plan_memory
from edgekv.budget.wish import Wish
from edgekv.core.plan import ModelFacts, Opening
from edgekv.errors import DoesNotFit, InvalidValue
from edgekv.kv import swap
from tests.unit.budget_models import (
    GIB,
    HYBRID,
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


def test_with_plenty_everything_is_as_good_as_it_gets() -> None:
    choice = plan().choice
    assert choice.context_length == 32768
    assert choice.slots == 4
    assert choice.cells == 4 * 32768
    assert (choice.kv_type_k, choice.kv_type_v) == ("f16", "f16")
    assert (choice.ubatch, choice.batch) == (512, 512)
    assert choice.kept == 4
    assert choice.flash_attention
    assert choice.gpu_layers == 0


def test_more_cores_serve_more_conversations() -> None:
    assert plan(host=machine(64 * GIB, cores=16)).choice.slots == 8


def test_the_total_is_the_sum_of_the_lines_and_within_the_budget() -> None:
    made = plan(with_memory(GIB))
    assert made.total_bytes == sum(line.bytes for line in made.lines) <= GIB
    assert made.budget_bytes == GIB
    assert made.fits


def test_the_engine_itself_is_counted_with_what_requests_add() -> None:
    made = plan()
    (runtime,) = [line.bytes for line in made.lines if line.label == "runtime"]
    growth = growth_bytes(read_geometry(model().metadata), model().num_vocab, made.choice)
    assert runtime - RUNTIME_BYTES == growth > 8 * MIB


def test_a_server_has_room_for_schemas() -> None:
    facts = model()
    chat, server = plan(), plan(Wish(grammars=True))
    sizes = [
        sum(line.bytes for line in made.lines if line.label == "runtime") for made in (chat, server)
    ]
    assert sizes[1] - sizes[0] == 14 * MIB + facts.num_vocab * 220
    assert any("for schemas" in line.how for line in server.lines)


def test_a_little_is_for_copies_of_conversations_where_there_is_plenty() -> None:
    made = plan()
    (line,) = [line for line in made.lines if line.label == "host_cache"]
    assert line.bytes > made.choice.host_cache_bytes > 0
    assert line.bytes <= (made.total_bytes - line.bytes) / 16


def test_there_is_no_host_cache_that_could_not_hold_a_piece_of_a_conversation() -> None:
    assert plan(with_memory(600 * MIB)).choice.host_cache_bytes == 0


def test_the_pieces_that_are_planned_are_those_that_move() -> None:
    assert swap.PIECE_CELLS == MOVED_CELLS


def test_a_plan_uses_what_it_was_given() -> None:
    made = plan(with_memory(2 * GIB))
    assert made.total_bytes > 0.98 * made.budget_bytes


def test_two_dry_runs_are_enough_where_the_first_guess_is_near() -> None:
    facts = model()
    library = KnownAllocator(facts)
    asyncio.run(
        plan_memory(Basis(facts, (), PLENTY, with_memory(2 * GIB), RUNTIME_BYTES), library.dry_run)
    )
    assert len(library.openings) <= 3


def test_every_slot_has_a_whole_context_of_its_own_while_that_is_enough() -> None:
    choice = plan(with_memory(2 * GIB)).choice
    assert choice.context_length >= 8192
    assert choice.cells >= choice.context_length * choice.slots


def test_slots_share_the_pool_before_conversations_get_too_short() -> None:
    made = plan(with_memory(640 * MIB))
    assert made.choice.context_length == 8192
    assert 8192 <= made.choice.cells < 8192 * made.choice.slots
    assert any("share" in sentence for sentence in made.limits)


def test_keys_and_values_lose_precision_before_the_context_does() -> None:
    made = plan(with_memory(560 * MIB))
    assert made.choice.context_length == 8192
    assert (made.choice.kv_type_k, made.choice.kv_type_v) == ("q8_0", "q8_0")
    assert any("because f16 would cost" in sentence for sentence in made.limits)


def test_large_steps_are_given_up_before_precision() -> None:
    made = plan(with_memory(600 * MIB))
    assert made.choice.kv_type_k == "f16"
    assert made.choice.ubatch < 512
    assert any(f"{made.choice.ubatch} tokens at a time" in sentence for sentence in made.limits)


def test_nothing_below_q8_0_is_taken_without_being_asked() -> None:
    for mebibytes in range(340, 700, 20):
        assert plan(with_memory(mebibytes * MIB)).choice.kv_type_k in {"f16", "q8_0"}


def test_a_short_model_gets_what_it_can_follow_and_no_more() -> None:
    made = plan(facts=model(context_train=2048))
    assert (made.choice.context_length, made.choice.cells) == (2048, 8192)


def test_a_file_that_claims_any_context_does_not_get_all_memory() -> None:
    made = plan(facts=model(context_train=2**32 - 1), host=machine(1024 * GIB))
    assert made.choice.context_length <= 2**20


class TestWindows:
    facts = model("gemma3", layers=18, context_train=8192, **WINDOWED)

    def test_windows_are_whole_so_that_prefixes_can_be_shared(self) -> None:
        choice = plan(facts=self.facts).choice
        assert choice.swa_full
        assert choice.kept > 0

    def test_windows_are_bounded_when_whole_ones_would_cost_context(self) -> None:
        made = plan(with_memory(400 * MIB), facts=self.facts)
        assert not made.choice.swa_full
        assert made.choice.context_length == 8192
        assert made.choice.kept == 0
        assert any("prefixes are not shared" in sentence for sentence in made.limits)


class TestState:
    def test_state_counts_for_every_slot(self) -> None:
        made = plan(facts=model("qwen35", **HYBRID))
        state = sum(line.bytes for line in made.lines if line.label == "recurrent")
        assert state == (4 + 1) * 12 * 4 * (3 * (2048 + 2 * 16 * 128) + 2048 * 128)
        assert made.choice.kept == 0
        assert any("recurrent" in sentence for sentence in made.limits)

    @pytest.mark.parametrize(
        ("weight_bytes", "slots"),
        [(256 * MIB, 200), (2 * GIB, None)],
        ids=["state", "weights"],
    )
    def test_a_dry_run_that_would_take_too_much_for_real_is_not_made(
        self, weight_bytes: int, slots: int | None
    ) -> None:
        facts = model("qwen35", weight_bytes=weight_bytes, **HYBRID)
        library = KnownAllocator(facts)
        basis = Basis(facts, (), PLENTY, with_memory(GIB, slots=slots), RUNTIME_BYTES)
        with pytest.raises(DoesNotFit, match=r"--slots \d+" if slots else "--memory"):
            asyncio.run(plan_memory(basis, library.dry_run))
        assert library.openings == []

    def test_tokens_without_cells_do_not_bound_the_context(self) -> None:
        keys = {"wkv__head_size": 64, "token_shift_count": 2}
        made = plan(with_memory(512 * MIB), facts=model("rwkv7", **keys))
        assert made.choice.context_length == 32768
        assert any("take no memory" in sentence for sentence in made.limits)


class TestWishes:
    def test_asked_for_context_and_slots_have_room_at_once_before_precision(self) -> None:
        wish = with_memory(560 * MIB, context_length=2048, slots=4)
        assert plan(wish).choice.kv_type_k == "q8_0"
        assert plan(wish).choice.cells == 4 * 2048

    def test_a_context_is_kept_exactly(self) -> None:
        choice = plan(Wish(context_length=1000, slots=1)).choice
        assert (choice.context_length, choice.cells) == (1000, 1024)

    def test_the_padded_pool_is_said(self) -> None:
        made = plan(Wish(context_length=1000, slots=1))
        assert any("1,024 cells" in sentence for sentence in made.limits)

    def test_slots_are_kept(self) -> None:
        assert plan(Wish(slots=7)).choice.slots == 7

    def test_cells_are_kept(self) -> None:
        choice = plan(Wish(cells=10_000, slots=2)).choice
        assert choice.cells == 10_240
        assert choice.context_length == 8192

    def test_a_pool_may_be_larger_than_all_contexts(self) -> None:
        choice = plan(Wish(cells=10_240, slots=2, context_length=512)).choice
        assert (choice.cells, choice.context_length) == (10_240, 512)

    def test_kv_types_are_kept_and_low_ones_warned_about(self) -> None:
        made = plan(Wish(kv_type_k="q8_0", kv_type_v="q4_0"))
        assert (made.choice.kv_type_k, made.choice.kv_type_v) == ("q8_0", "q4_0")
        assert any("q8_0/q4_0 is unvalidated" in sentence for sentence in made.limits)

    def test_one_kv_type_may_be_left_to_the_plan(self) -> None:
        choice = plan(Wish(kv_type_k="q8_0")).choice
        assert (choice.kv_type_k, choice.kv_type_v) == ("q8_0", "f16")

    def test_a_host_cache_is_kept_and_has_a_line_of_its_own(self) -> None:
        made = plan(Wish(host_cache_bytes=GIB))
        assert made.choice.host_cache_bytes == GIB
        (line,) = [line for line in made.lines if line.label == "host_cache"]
        assert line.bytes == GIB + 2 * MOVED_CELLS * 32768

    def test_without_a_host_cache_there_is_no_line_for_it(self) -> None:
        made = plan(Wish(host_cache_bytes=0))
        assert not any(line.label == "host_cache" for line in made.lines)

    def test_threads_are_no_more_than_usable_and_that_is_said(self) -> None:
        """ggml-org/llama.cpp#10397: more threads than processors hung."""
        made = plan(Wish(threads=999))
        assert made.choice.threads == 2
        assert any("--threads 999" in sentence for sentence in made.limits)

    def test_without_mapping_the_weights_are_memory_of_our_own(self) -> None:
        (line,) = [line for line in plan(Wish(use_mmap=False)).lines if line.label == "weights"]
        assert (line.bytes, line.how) == (256 * MIB, "copied from the file")

    def test_mapped_weights_are_the_whole_file(self) -> None:
        (line,) = [line for line in plan().lines if line.label == "weights"]
        assert line.bytes == 257 * MIB
        assert "mapped" in line.how


MODELS = (
    model(),
    model(weight_bytes=GIB, layers=32, num_vocab=128_000),
    model("gemma3", layers=18, **WINDOWED),
    model("qwen35", **HYBRID),
    model(context_train=2048, attention__key_length=80, attention__value_length=80),
)

WISHES = st.builds(
    Wish,
    context_length=st.none() | st.integers(1, 2048),
    slots=st.none() | st.integers(1, 12),
    cells=st.none() | st.integers(2048, 20_000),
    kv_type_k=st.sampled_from([None, "f16", "q8_0"]),
    kv_type_v=st.sampled_from([None, "f16", "q8_0"]),
    memory_bytes=st.integers(200 * MIB, 6 * GIB),
    host_cache_bytes=st.none() | st.integers(0, 100 * MIB),
    embeddings=st.sampled_from([None, False, True]),
)


@settings(deadline=None)
@given(facts=st.sampled_from(MODELS), wish=WISHES)
def test_whatever_is_wished_the_plan_fits_and_keeps_it_or_is_refused(
    facts: ModelFacts, wish: Wish
) -> None:
    try:
        made = plan(wish, facts)
    except (DoesNotFit, InvalidValue):
        return
    choice = made.choice
    # What the plan claims is what the allocator says of this very choice.
    truth = KnownAllocator(facts).allocation(Opening("model.gguf", choice))
    for label in ("kv", "recurrent", "compute", "output", "embedding"):
        claimed = sum(line.bytes for line in made.lines if line.label == label)
        assert claimed == truth.total(label)
    assert made.total_bytes <= made.budget_bytes
    assert choice.context_length == (wish.context_length or choice.context_length)
    assert choice.slots == (wish.slots or choice.slots)
    assert choice.kv_type_k == (wish.kv_type_k or choice.kv_type_k)
    assert choice.kv_type_v == (wish.kv_type_v or choice.kv_type_v)
    assert 0 <= choice.cells - (wish.cells or choice.cells) < 256
    assert choice.context_length <= choice.cells
    assert choice.cells % 256 == 0
    assert choice.num_ids <= 256
