"""What a model that is not here would allocate, foreseen without its file.

The planner is the one that plans every model. Its questions to llama.cpp's allocator are answered
here by formulas: cells, state and output exactly, the rest as rules that load logs suggest. So a
forecast chooses context and slots as a plan would, and the plan has the last word once the file,
or its header, can be read.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgekv.budget.devices import HOST
from edgekv.budget.formulas import (
    Pool,
    embedding_bytes,
    kv_bytes,
    mask_bytes,
    output_bytes,
    state_bytes,
)
from edgekv.budget.geometry import Geometry, read_geometry
from edgekv.budget.machine import MIB, Machine
from edgekv.budget.metadata import ModelKeys
from edgekv.budget.planner import plan_memory
from edgekv.budget.wish import Wish
from edgekv.core.plan import (
    Allocation,
    BufferSize,
    Choice,
    DeviceInfo,
    Label,
    MemoryPlan,
    ModelFacts,
    Opening,
)
from edgekv.errors import ModelError

LARGE_VOCABULARY = 262_144
"""Taken where none is stated: the largest that people use, so that no forecast is too small."""
RUNTIME_BYTES = 80 * MIB
"""An engine process without a model; 66 to 98 MiB were measured, with the vocabulary."""
_LEAST_ACTIVATIONS, _MOST_ACTIVATIONS = 16 * MIB, 512 * MIB
_ACTIVATIONS_PART = 20
"""Room to compute 512 tokens at once is one part in this many of the weights, in load logs of
models from 0.1 to 30 billion parameters.
"""
_REPACKED = ("Q4_0", "Q4_K", "IQ4_NL")
"""Types that the processor's kernels want laid out anew, in copies on top of the mapped file."""


@dataclass(frozen=True, slots=True)
class Place:
    """The machine a forecast is for."""

    machine: Machine
    devices: tuple[DeviceInfo, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is known of a model, from the catalogue or from a header."""

    title: str
    metadata: dict[str, str]
    file_bytes: int
    quantisation: str | None = None
    vocabulary: int | None = None


async def forecast(candidate: Candidate, place: Place, wish: Wish | None = None) -> MemoryPlan:
    """The plan that the model would probably get.

    Raises `DoesNotFit` where nothing of it fits, `ModelError` where no formula knows its kind.
    """
    geometry = read_geometry(candidate.metadata)
    if geometry is None:
        raise ModelError(f"{candidate.title} can only be sized from its file.")
    facts = _facts(candidate, geometry)

    async def dry_run(opening: Opening) -> Allocation:
        return _foreseen(facts, geometry, opening.choice, place, candidate.quantisation)

    return await plan_memory(
        facts, place.devices, place.machine, wish or Wish(), dry_run, RUNTIME_BYTES
    )


def _facts(candidate: Candidate, geometry: Geometry) -> ModelFacts:
    keys = ModelKeys(candidate.metadata)
    has_state = any(layer.state_width for layer in geometry.layers)
    return ModelFacts(
        path=candidate.title,
        name=candidate.title,
        architecture=keys.architecture or "unknown",
        file_bytes=candidate.file_bytes,
        context_train=keys.number("context_length"),
        num_layers=len(geometry.layers),
        num_vocab=candidate.vocabulary or LARGE_VOCABULARY,
        metadata=candidate.metadata,
        weight_bytes=candidate.file_bytes,
        window=geometry.window,
        is_recurrent=has_state and not geometry.has_cells,
        is_hybrid=has_state and geometry.has_cells,
        has_decoder=True,
        chat_template=None,
        bos_text="",
        eos_text="",
        adds_bos=False,
        control_texts=(),
    )


def _foreseen(
    facts: ModelFacts, geometry: Geometry, choice: Choice, place: Place, quantisation: str | None
) -> Allocation:
    pool = Pool.of(choice)
    activations = facts.weight_bytes // _ACTIVATIONS_PART * choice.ubatch // 512
    activations = min(max(activations, _LEAST_ACTIVATIONS), _MOST_ACTIVATIONS)
    output = output_bytes(facts.num_vocab, choice.num_ids)
    sizes: dict[Label, int] = {
        "weights": facts.weight_bytes,
        "kv": kv_bytes(geometry, pool, choice.kv_type_k, choice.kv_type_v),
        "recurrent": state_bytes(geometry, choice.num_ids),
        "compute": max(mask_bytes(geometry, pool) + activations, output),
        "output": output,
    }
    if choice.embedding_cells:
        sizes["embedding"] = embedding_bytes(geometry, facts.num_vocab, choice.embedding_cells)
    on_device = choice.gpu_layers / (facts.num_layers + 1)
    device = next((one.id for one in place.devices if one.kind != "cpu"), HOST)
    buffers = [*_shared_out(sizes, device, on_device), *_repacked(facts, quantisation, on_device)]
    return Allocation(tuple(buffer for buffer in buffers if buffer.bytes))


def _shared_out(sizes: dict[Label, int], device: str, share: float) -> list[BufferSize]:
    """Weights and cells go with the layers that a graphics device takes; outputs stay."""
    buffers = []
    for label, size in sizes.items():
        moved = int(size * share) if label in {"weights", "kv", "recurrent", "compute"} else 0
        buffers.append(BufferSize(device, label, moved, buffer_type=device))
        buffers.append(BufferSize(HOST, label, size - moved, buffer_type=HOST))
    return buffers


def _repacked(facts: ModelFacts, quantisation: str | None, on_device: float) -> list[BufferSize]:
    if not (quantisation or "").removeprefix("UD-").startswith(_REPACKED):
        return []
    size = int(facts.weight_bytes * (1 - on_device))
    return [BufferSize(HOST, "weights", size, buffer_type="CPU_REPACK")]
