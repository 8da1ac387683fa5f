"""Copies that llama.cpp lays out for the processor, foreseen from a header and allocated."""

from __future__ import annotations

import asyncio
from pathlib import Path

import gguf
import numpy as np
import pytest

from edgekv.budget.planner import Basis, plan_memory
from edgekv.budget.wish import Wish
from edgekv.core.plan import Allocation, MemoryPlan, Opening
from edgekv.llama.allocation import _device
from edgekv.llama.backend import LlamaLibrary
from edgekv.llama.description import describe
from edgekv.models.forecast import RUNTIME_BYTES, Place
from edgekv.models.gguf_walk import walk_file
from edgekv.models.header_plan import plan_from_header
from edgekv.models.repacked import repacked_bytes
from edgekv.models.tensor_types import Tensor
from edgekv.service.own_command import own_command
from tests.tiny_models import VOCABULARY
from tests.unit.budget_models import GIB, machine

pytestmark = pytest.mark.llama

WISH = Wish(context_length=512, slots=1)
WIDTH, HIDDEN, EXPERTS = 256, 512, 4
KIND = gguf.GGMLQuantizationType
KINDS = [
    KIND.Q4_0,
    KIND.Q4_1,
    KIND.Q8_0,
    KIND.Q2_K,
    KIND.Q4_K,
    KIND.Q5_K,
    KIND.Q6_K,
    KIND.IQ4_NL,
    KIND.MXFP4,
    KIND.F16,
]
ATTENTION = {f"attn_{name}": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")}
DENSE = {"ffn_gate": (WIDTH, HIDDEN), "ffn_up": (WIDTH, HIDDEN), "ffn_down": (HIDDEN, WIDTH)}
MIXTURE = {
    "ffn_gate_exps": (WIDTH, HIDDEN, EXPERTS),
    "ffn_up_exps": (WIDTH, HIDDEN, EXPERTS),
    "ffn_down_exps": (HIDDEN, WIDTH, EXPERTS),
}


def write(
    path: Path, kind: gguf.GGMLQuantizationType, *, output: bool = True, mixture: bool = False
) -> Path:
    """A model of two layers whose matrices are of one type and all zero."""
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(2)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(1e-5)
    words = [*VOCABULARY, *(f"word {number}" for number in range(-len(VOCABULARY) % 8))]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([0.0] * len(words))
    writer.add_token_types([6] * len(words))
    if mixture:
        writer.add_expert_count(EXPERTS)
        writer.add_expert_used_count(2)
    matrices: dict[str, tuple[int, ...]] = {"token_embd": (WIDTH, len(words))}
    matrices |= {"output": (WIDTH, len(words))} if output else {}
    norms = ["output_norm"]
    for number in range(2):
        layer: dict[str, tuple[int, ...]] = {**ATTENTION, **(MIXTURE if mixture else DENSE)}
        matrices |= {f"blk.{number}.{name}": lengths for name, lengths in layer.items()}
        norms += [f"blk.{number}.attn_norm", f"blk.{number}.ffn_norm"]
    for name, lengths in matrices.items():
        _add(writer, name, lengths, kind)
    for name in norms:
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))
    if mixture:
        for number in range(2):
            _add(writer, f"blk.{number}.ffn_gate_inp", (WIDTH, EXPERTS), KIND.F32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(
    writer: gguf.GGUFWriter, name: str, lengths: tuple[int, ...], kind: gguf.GGMLQuantizationType
) -> None:
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    shape = (*reversed(lengths[1:]), lengths[0] // elements * size)
    if kind is KIND.F32:
        writer.add_tensor(f"{name}.weight", np.zeros(tuple(reversed(lengths)), np.float32))
    else:
        writer.add_tensor(f"{name}.weight", np.zeros(shape, np.uint8), raw_dtype=kind)


@pytest.fixture(scope="module")
def library() -> LlamaLibrary:
    return LlamaLibrary(own_command("grammar"))


@pytest.fixture(scope="module")
def features() -> frozenset[str]:
    return describe().features


def opened(library: LlamaLibrary, path: Path) -> MemoryPlan:
    """The plan with the library's own allocator."""

    async def dry_run(opening: Opening) -> Allocation:
        return library.dry_run(opening)

    basis = Basis(library.describe(str(path)), (), machine(8 * GIB), WISH, RUNTIME_BYTES)
    return asyncio.run(plan_memory(basis, dry_run))


def foreseen(path: Path, features: frozenset[str]) -> MemoryPlan:
    """The plan from the header alone."""
    place = Place(machine(8 * GIB), (), features)
    made = plan_from_header(walk_file(path), str(path), place, WISH, "")
    return asyncio.run(made).plan


def weights(plan: MemoryPlan) -> int:
    return sum(line.bytes for line in plan.lines if line.label == "weights")


@pytest.mark.parametrize("shape", ["dense", "words are the output", "mixture of experts"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.name))
def test_the_weights_of_every_type_are_foreseen(
    tmp_path: Path,
    library: LlamaLibrary,
    features: frozenset[str],
    kind: gguf.GGMLQuantizationType,
    shape: str,
) -> None:
    path = write(
        tmp_path / "model.gguf",
        kind,
        output=shape != "words are the output",
        mixture=shape == "mixture of experts",
    )
    assert weights(foreseen(path, features)) == pytest.approx(
        weights(opened(library, path)), rel=0.02
    )


@pytest.mark.parametrize("name", ["starter_model", "gemma_model"])
def test_the_weights_of_real_models_are_foreseen(
    library: LlamaLibrary, features: frozenset[str], request: pytest.FixtureRequest, name: str
) -> None:
    path: Path = request.getfixturevalue(name)
    assert weights(foreseen(path, features)) == pytest.approx(
        weights(opened(library, path)), rel=0.02
    )


@pytest.mark.parametrize(
    ("kind", "features", "copied"),
    [
        (KIND.Q8_0, "REPACK AVX2 AVX512", 0),
        (KIND.Q8_0, "REPACK NEON DOTPROD", 256 * 256 // 32 * 34),
        (KIND.Q6_K, "REPACK NEON MATMUL_INT8", 256 * 210),
        (KIND.Q2_K, "REPACK AVX2", 0),
        (KIND.Q2_K, "REPACK AVX2 AVX512", 256 * 84),
        (KIND.Q4_0, "AVX2", 0),
        (KIND.Q4_0, "REPACK NEON", 0),
        (KIND.Q4_1, "REPACK AVX2 AVX512", 0),
        (KIND.Q4_1, "REPACK AVX2 AVX512 AMX_INT8", 256 * 256 // 32 * 20),
        (KIND.Q8_0, "AVX2 AVX512 AMX_INT8", 256 * 256 // 32 * (34 + 4)),
        (KIND.Q4_K, "REPACK AVX2 AVX512 AMX_INT8", 256 * (144 + 4)),
        (KIND.F16, "REPACK AVX2 AVX512 AMX_INT8", 256 * 256 * 2),
        (KIND.F32, "REPACK AVX2 AVX512 AMX_INT8", 0),
    ],
)
def test_other_processors_want_other_types_laid_out(
    kind: gguf.GGMLQuantizationType, features: str, copied: int
) -> None:
    tensor = Tensor("blk.0.attn_q.weight", int(kind), (256, 256), 0)
    assert repacked_bytes([tensor], features.split()) == copied


@pytest.mark.parametrize("buffer_type", ["CPU", "CPU_Mapped", "CPU_REPACK", "AMX", "CUDA_Host"])
def test_what_the_processor_reads_lies_in_the_hosts_memory(buffer_type: str) -> None:
    assert _device(buffer_type) == "CPU"
