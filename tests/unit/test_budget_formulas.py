"""The closed formulas against what llama.cpp printed on other people's machines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edgekv.budget.formulas import (
    Pool,
    attention_bytes,
    cache_shapes,
    fits_widths,
    kv_bytes,
    kv_bytes_per_cell,
    output_bytes,
    padded,
    score_bytes,
    state_bytes,
    window_cells,
)
from edgekv.budget.geometry import Geometry, read_geometry
from edgekv.budget.kv_types import KV_TYPES
from tests.conftest import REPOSITORY

MIB = 1024**2
DATA = REPOSITORY / "tests/data/budget"
LOGS = [json.loads(line) for line in (DATA / "kv_logs.jsonl").read_text().splitlines()]
GEOMETRIES = json.loads((DATA / "geometries.json").read_text())


def geometry(metadata: dict[str, str]) -> Geometry:
    known = read_geometry(metadata)
    assert known is not None
    return known


def model(architecture: str, **keys: object) -> Geometry:
    """A geometry from keys written with `__` for the dots."""
    metadata = {"general.architecture": architecture}
    for key, value in keys.items():
        text = str(value).lower() if isinstance(value, bool | list) else str(value)
        metadata[f"{architecture}.{key.replace('__', '.')}"] = text
    return geometry(metadata)


def heads(count: object, length: int) -> dict[str, object]:
    """Keys of an attention with `count` KV heads of `length` elements."""
    return {
        "attention__head_count_kv": count,
        "attention__key_length": length,
        "attention__value_length": length,
    }


@pytest.mark.parametrize("log", LOGS, ids=[f"{log['id']} {log['model']}" for log in LOGS])
def test_the_formulas_give_what_the_log_printed(log: dict[str, Any]) -> None:
    known, pool = geometry(log["metadata"]), Pool(**log["pool"])
    predicted = {
        shape.name: shape.num_bytes(log["kv_type_k"], log["kv_type_v"]) / MIB
        for shape in cache_shapes(known, pool)
    }
    predicted["all"] = sum(predicted.values())
    for name, printed in log["printed_mib"]:
        assert predicted[name] == pytest.approx(printed, abs=0.02)
    if "printed_state_mib" in log:
        state = state_bytes(known, pool.num_ids, log["draft_depth"]) / MIB
        assert state == pytest.approx(log["printed_state_mib"], abs=0.02)


def test_window_layers_of_a_file_that_lists_none_follow_the_architecture() -> None:
    known = geometry(GEOMETRIES["gptoss_swa_no_pattern_key"])
    bounded = Pool(131072, ubatch=512, swa_full=False)
    assert kv_bytes(known, bounded, "f16", "f16") == 3090 * MIB


def test_a_hybrid_has_cells_in_its_attention_layers_and_state_in_the_others() -> None:
    known = geometry(GEOMETRIES["qwen3next_hybrid"])
    assert kv_bytes_per_cell(known)["f16"] == 24_576
    assert kv_bytes(known, Pool(32768), "f16", "f16") == 768 * MIB
    assert state_bytes(known, num_ids=1) == 79_036_416


def test_without_cells_nothing_is_looked_at_with_flash_attention_or_without() -> None:
    known = model("rwkv7", block_count=4, attention__head_count=16, wkv__head_size=64)
    for flash_attention in (True, False):
        assert attention_bytes(known, Pool(4096, flash_attention=flash_attention)) == 0
    assert score_bytes(known, Pool(4096, flash_attention=False)) == 0


def test_a_recurrent_model_takes_nothing_for_a_token() -> None:
    known = geometry(GEOMETRIES["rwkv7_no_kv"])
    assert kv_bytes_per_cell(known)["f16"] == 0
    assert not known.has_cells
    assert state_bytes(known, num_ids=1) == 2_433_024


@pytest.mark.parametrize(("asked", "real"), [(1, 256), (256, 256), (1000, 1024), (65535, 65536)])
def test_cells_are_padded_to_a_multiple_of_256(asked: int, real: int) -> None:
    assert padded(asked) == real


@pytest.mark.parametrize(("num_ids", "cells"), [(3, 1536), (4, 1024)])
def test_separate_streams_may_hold_more_than_was_asked(num_ids: int, cells: int) -> None:
    pool = Pool(1024, num_ids, is_unified=False)
    assert pool.stream_cells * pool.num_streams == cells


class TestWindows:
    """gemma-3-270m's shape: every sixth layer sees everything, the others 512 tokens."""

    gemma = model("gemma3", block_count=18, attention__sliding_window=512, **heads(1, 256))

    @pytest.mark.parametrize(
        ("num_ids", "ubatch", "cells"),
        [(1, 512, 1024), (4, 512, 2560), (16, 512, 8704), (1, 1024, 1536), (1, 64, 768)],
    )
    def test_a_bounded_window_grows_with_ids_and_tokens_at_once(
        self, num_ids: int, ubatch: int, cells: int
    ) -> None:
        pool = Pool(32768, num_ids, ubatch, swa_full=False)
        assert window_cells(self.gemma, pool) == cells

    def test_a_bounded_window_is_never_larger_than_the_pool(self) -> None:
        assert window_cells(self.gemma, Pool(512, 16, swa_full=False)) == 512

    def test_whole_windows_cost_as_much_as_other_layers(self) -> None:
        assert kv_bytes(self.gemma, Pool(32768), "f16", "f16") == 576 * MIB
        bounded = Pool(32768, swa_full=False)
        assert kv_bytes(self.gemma, bounded, "f16", "f16") == 111 * MIB

    def test_each_kind_of_layer_has_its_own_mask(self) -> None:
        assert attention_bytes(self.gemma, Pool(4096)) == 2 * (4096 + 4096) * 512
        assert attention_bytes(self.gemma, Pool(4096, swa_full=False)) == 2 * (4096 + 1024) * 512

    def test_a_file_without_a_window_has_none(self) -> None:
        assert model("gemma3", block_count=18, **heads(1, 256)).window == 0

    def test_phi3_names_a_window_and_does_not_use_it(self) -> None:
        known = model("phi3", block_count=32, attention__sliding_window=262144, **heads(8, 128))
        assert known.window == 0
        assert kv_bytes_per_cell(known)["f16"] == 131_072

    def test_the_first_of_four_layers_sees_everything_where_that_is_the_rule(self) -> None:
        known = model("laguna", block_count=8, attention__sliding_window=512, **heads(1, 64))
        assert [layer.is_windowed for layer in known.layers] == [False, True, True, True] * 2

    def test_a_period_in_the_file_replaces_the_rule(self) -> None:
        keys = {"attention__sliding_window": 512, "attention__sliding_window_pattern": 3}
        known = model("gemma3", block_count=6, **keys, **heads(1, 64))
        assert [layer.is_windowed for layer in known.layers] == [True, True, False] * 2


class TestWidths:
    def test_layers_without_kv_heads_keep_nothing(self) -> None:
        known = model("deci", block_count=4, **heads([8, 0, 0, 8], 128))
        assert kv_bytes_per_cell(known)["f16"] == 2 * 2 * 8 * 128 * 2

    def test_kv_heads_default_to_heads_and_their_length_to_an_equal_part(self) -> None:
        known = model("llama", block_count=2, embedding_length=512, attention__head_count=8)
        assert kv_bytes_per_cell(known)["f16"] == 2 * 2 * 512 * 2

    def test_last_layers_read_the_cache_of_earlier_ones(self) -> None:
        keys = {
            "attention__sliding_window": 512,
            "attention__sliding_window_pattern": [True, True, True, True, True, False] * 7,
            "attention__shared_kv_layers": 18,
            "attention__key_length_swa": 256,
            "attention__value_length_swa": 256,
        }
        known = model("gemma4", block_count=42, **keys, **heads(2, 512))
        full, window = cache_shapes(known, Pool(4096))
        assert (len(full.k_widths), len(window.k_widths)) == (4, 20)
        assert (set(full.k_widths), set(window.k_widths)) == ({1024}, {512})

    def test_without_flash_attention_every_value_is_as_wide_as_the_widest(self) -> None:
        keys = {
            "attention__sliding_window": 512,
            "attention__sliding_window_pattern": [True, False],
            "attention__key_length_swa": 256,
            "attention__value_length_swa": 256,
        }
        known = model("gemma4", block_count=2, **keys, **heads(1, 512))
        _, window = cache_shapes(known, Pool(256, flash_attention=False))
        assert (window.k_widths, window.v_widths) == ((256,), (512,))

    def test_a_latent_is_kept_once_and_without_values(self) -> None:
        keys = {"attention__key_length_mla": 192, "attention__value_length_mla": 128}
        known = model("deepseek2", block_count=47, **heads(1, 576) | keys)
        assert kv_bytes_per_cell(known)["f16"] == 54_144

    def test_a_draft_block_at_the_end_has_no_cells(self) -> None:
        with_draft = model("glm4moe", block_count=5, nextn_predict_layers=1, **heads(8, 128))
        assert with_draft == model("glm4moe", block_count=4, **heads(8, 128))

    def test_a_file_of_draft_blocks_alone_keeps_them(self) -> None:
        drafts = model("glm4moe", block_count=2, nextn_predict_layers=2, **heads(8, 128))
        assert drafts == model("glm4moe", block_count=2, **heads(8, 128))

    @pytest.mark.parametrize("architecture", ["hy_v4", "minimax-m3"])
    def test_some_caches_take_draft_blocks_too(self, architecture: str) -> None:
        keys = {"attention__indexer__key_length": 128, **heads(8, 128)}
        with_draft = model(architecture, block_count=5, nextn_predict_layers=1, **keys)
        assert len(with_draft.layers) == 5

    def test_an_encoder_has_no_cache(self) -> None:
        assert cache_shapes(model("bert", block_count=12, **heads(12, 32)), Pool(512)) == ()

    def test_some_caches_have_no_closed_form(self) -> None:
        assert read_geometry({"general.architecture": "dflash"}) is None

    @pytest.mark.parametrize("text", ["", "x", "[1, x]", "-3", "9" * 5000, "1.5"])
    def test_a_damaged_number_counts_as_nothing(self, text: str) -> None:
        metadata = {"general.architecture": "llama", "llama.block_count": text}
        assert geometry(metadata).layers == ()

    def test_a_count_of_no_heads_divides_nothing(self) -> None:
        known = model("llama", block_count=2, embedding_length=64, attention__head_count=0)
        assert kv_bytes_per_cell(known)["f16"] == 0


class TestState:
    def test_every_id_has_its_own_state(self) -> None:
        known = geometry(GEOMETRIES["rwkv7_no_kv"])
        assert state_bytes(known, num_ids=4) == 4 * state_bytes(known, num_ids=1)

    def test_drafted_tokens_each_keep_a_copy(self) -> None:
        known = geometry(GEOMETRIES["rwkv7_no_kv"])
        assert state_bytes(known, 1, draft_depth=2) == 3 * state_bytes(known, 1)

    def test_feed_forward_layers_of_nemotron_keep_no_state(self) -> None:
        keys = {
            "feed_forward_length": [0, 8, 0],
            "ssm__conv_kernel": 4,
            "ssm__inner_size": 64,
            "ssm__state_size": 16,
            "ssm__group_count": 2,
        }
        known = model("nemotron_h", block_count=3, **keys, **heads([0, 0, 2], 64))
        states = [layer.state_width for layer in known.layers]
        assert states == [3 * (64 + 2 * 2 * 16) + 64 * 16, 0, 0]


def test_logits_take_a_row_for_each_id() -> None:
    assert output_bytes(num_vocab=262_144, num_ids=8) == 8 * MIB


def test_a_type_that_does_not_fill_its_blocks_is_not_offered() -> None:
    known = model("llama", block_count=1, **heads(1, 80))
    assert not fits_widths(known, "q8_0")
    assert set(kv_bytes_per_cell(known)) == {"f32", "f16", "bf16"}
    with pytest.raises(ValueError, match="whole blocks"):
        kv_bytes(known, Pool(256), "q8_0", "q8_0")


def test_types_take_the_bytes_of_their_blocks() -> None:
    taken = {name: kv_type.row_bytes(64) for name, kv_type in KV_TYPES.items()}
    assert taken == {
        "f32": 256,
        "f16": 128,
        "bf16": 128,
        "q8_0": 68,
        "q5_1": 48,
        "q5_0": 44,
        "q4_1": 40,
        "q4_0": 36,
        "iq4_nl": 36,
        "mxfp4": 34,
        "q2_0": 18,
    }
