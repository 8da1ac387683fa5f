"""DeepSeek V4: a window of keys, the same keys compressed, and states of the compressors."""

from __future__ import annotations

import pytest

from edgekv.budget.formulas import (
    Pool,
    cache_shapes,
    kv_bytes,
    kv_bytes_per_cell,
    state_bytes,
    window_cells,
)
from tests.unit.test_budget_formulas import MIB, heads, model

RATIOS = [0, 0, *[4, 128] * 20, 4]
"""DeepSeek-V4-Flash's 43 layers: two with a window alone, the rest compressing in turns."""
FLASH = model(
    "deepseek4",
    block_count=43,
    attention__sliding_window=128,
    attention__indexer__key_length=128,
    attention__compress_ratios=RATIOS,
    **heads(1, 512),
)


@pytest.mark.parametrize(
    ("cells", "ubatch", "kv_type", "mebibytes"),
    [(64_000, 4096, "bf16", 182.75), (524_288, 8192, "f16", 354.75)],
    ids=["llama.cpp#27680", "llama.cpp#27872"],
)
def test_the_window_takes_what_public_logs_print(
    cells: int, ubatch: int, kv_type: str, mebibytes: float
) -> None:
    shapes = cache_shapes(FLASH, Pool(cells, ubatch=ubatch, swa_full=False))
    sizes = {shape.name: shape.num_bytes(kv_type, kv_type) / MIB for shape in shapes}
    assert sizes["window"] == mebibytes


def test_keys_are_kept_once_more_for_four_or_for_128_tokens() -> None:
    shapes = cache_shapes(FLASH, Pool(64_000, swa_full=False))
    found = [(shape.name, shape.cells, len(shape.k_widths)) for shape in shapes]
    assert found == [
        ("window", 768, 43),
        ("index", 16_128, 21),
        ("compressed", 16_128, 21),
        ("compressed", 512, 20),
    ]


def test_every_sequence_id_has_a_pool_of_its_own() -> None:
    one, three = (kv_bytes(FLASH, Pool(8192, n, swa_full=False), "f16", "f16") for n in (1, 3))
    assert three == 3 * one
    assert window_cells(FLASH, Pool(8192, 3, swa_full=False)) == 768


def test_the_compressors_keep_keys_and_scores_of_the_tokens_under_way() -> None:
    fine = 2 * 8 * 2 * (512 + 128)
    coarse = 2 * 128 * 512
    assert state_bytes(FLASH, num_ids=2) == 2 * 4 * (21 * fine + 20 * coarse)


def test_a_token_takes_its_part_of_the_compressed_keys() -> None:
    in_window, fine, coarse = 43 * 512, 21 * (512 + 128) // 4, 20 * 512 // 128
    assert kv_bytes_per_cell(FLASH)["f16"] == 2 * (in_window + fine + coarse)
