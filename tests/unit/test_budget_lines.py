"""What an allocation and a choice come to in the engine process, line by line."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from edgekv.budget.formulas import kv_bytes_per_cell, state_bytes
from edgekv.budget.geometry import read_geometry
from edgekv.budget.ledger import Engine, cost_lines, growth_bytes, moving_bytes
from edgekv.core.plan import Allocation, BufferSize, Choice, CostLine
from tests.unit.budget_models import HYBRID, MIB, model

CHOICE = Choice(
    context_length=512,
    slots=1,
    cells=512,
    kv_type_k="f16",
    kv_type_v="f16",
    gpu_layers=0,
    batch=512,
    ubatch=512,
    swa_full=True,
    flash_attention=True,
)
FACTS = model(weight_bytes=256 * MIB)
GEOMETRY = read_geometry(FACTS.metadata)
GEMMA = read_geometry(
    model("gemma3", layers=18, attention__sliding_window=512).metadata,
)
HYBRID_GEOMETRY = read_geometry(model("qwen35", **HYBRID).metadata)


def lines(*buffers: BufferSize, use_mmap: bool = True) -> list[CostLine]:
    engine = Engine(FACTS, GEOMETRY, use_mmap, runtime_bytes=64 * MIB)
    return list(cost_lines(engine, CHOICE, Allocation(buffers)))


def weights(made: list[CostLine]) -> list[tuple[str, int]]:
    return [(line.device, line.bytes) for line in made if line.label == "weights"]


MAPPED = BufferSize("CPU", "weights", 256 * MIB, mapped=True, buffer_type="CPU_Mapped")
COPIES = BufferSize("CPU", "weights", 100 * MIB, buffer_type="CPU_REPACK")
ON_GPU = BufferSize("CUDA0", "weights", 200 * MIB, buffer_type="CUDA0")


def test_copies_laid_out_for_the_processor_come_on_top_of_the_mapped_file() -> None:
    assert weights(lines(MAPPED, COPIES)) == [("CPU", FACTS.file_bytes), ("CPU", 100 * MIB)]


def test_what_is_on_a_graphics_device_is_not_counted_on_the_host_once_more() -> None:
    rest = BufferSize("CPU", "weights", 56 * MIB, mapped=True, buffer_type="CPU_Mapped")
    assert weights(lines(rest, ON_GPU)) == [("CPU", 56 * MIB), ("CUDA0", 200 * MIB)]


@pytest.mark.parametrize(
    ("num_vocab", "slots", "cells", "counted"),
    # The column "counted" of docs/memory.md, "The engine itself": SmolLM2 and gemma-3.
    [(49_152, 1, 512, 8.7), (49_152, 2, 1024, 9.4), (262_144, 1, 512, 11.2)],
)
def test_what_requests_add_is_what_the_memory_page_counts(
    num_vocab: int, slots: int, cells: int, counted: float
) -> None:
    geometry = GEMMA if num_vocab > 100_000 else GEOMETRY
    growth = growth_bytes(geometry, num_vocab, replace(CHOICE, slots=slots, cells=cells))
    assert growth / MIB == pytest.approx(counted, abs=0.05)


def test_a_context_for_embeddings_adds_its_own_code_and_its_table_of_cells() -> None:
    embeds = replace(CHOICE, embedding_cells=2048)
    more = growth_bytes(GEOMETRY, 32_000, embeds) - growth_bytes(GEOMETRY, 32_000, CHOICE)
    assert more == 12 * MIB + 2048 * 192


def test_without_flash_attention_the_rounded_scores_are_counted() -> None:
    plain = replace(CHOICE, flash_attention=False)
    more = growth_bytes(GEOMETRY, 32_000, plain) - growth_bytes(GEOMETRY, 32_000, CHOICE)
    # docs/memory.md: cells x tokens at once x query heads x 2 bytes.
    assert more == 512 * 512 * 16 * 2


@pytest.mark.parametrize("cells", [256, 512, 65_536])
def test_a_piece_on_its_way_is_there_twice_however_large_the_pool_is(cells: int) -> None:
    assert GEOMETRY is not None
    piece = 256 * kv_bytes_per_cell(GEOMETRY)["f16"]
    assert moving_bytes(GEOMETRY, replace(CHOICE, cells=cells)) == 2 * piece


def test_a_state_on_its_way_is_there_twice_too() -> None:
    assert HYBRID_GEOMETRY is not None
    piece = 256 * kv_bytes_per_cell(HYBRID_GEOMETRY)["f16"]
    state = state_bytes(HYBRID_GEOMETRY, num_ids=1)
    assert moving_bytes(HYBRID_GEOMETRY, CHOICE) == 2 * (piece + state)
