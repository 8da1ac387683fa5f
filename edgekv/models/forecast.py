"""What a model that is not here would allocate, foreseen without its file.

The planner is the one that plans every model. Its questions to llama.cpp's allocator are answered
here by formulas: cells, state and output exactly, the rest as rules that load logs suggest. So a
forecast chooses context and slots as a plan would, and the plan has the last word once the file,
or its header, can be read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from edgekv.budget.devices import HOST
from edgekv.budget.formulas import (
    Pool,
    attention_bytes,
    embedding_bytes,
    kv_bytes,
    output_bytes,
    state_bytes,
)
from edgekv.budget.geometry import Geometry, read_geometry
from edgekv.budget.machine import MIB, Machine
from edgekv.budget.metadata import ModelKeys
from edgekv.budget.planner import Basis, plan_memory
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
from edgekv.models.repacked import repacked_bytes, usual_features
from edgekv.models.tensor_types import Tensor

LARGE_VOCABULARY = 262_144
"""Taken where none is stated: the largest that people use, so that no forecast is too small."""
RUNTIME_BYTES = 80 * MIB
"""An engine process without a model; 66 to 98 MiB were measured, with the vocabulary."""
_LEAST_ACTIVATIONS, _MOST_ACTIVATIONS = 16 * MIB, 512 * MIB
_ACTIVATIONS_PART = 20
"""Room to compute 512 tokens at once is one part in this many of the weights, in load logs of
models from 0.1 to 30 billion parameters.
"""
_REPACKED = {"Q4_0": 0.9, "Q4_K": 0.75, "IQ4_NL": 0.9}
"""Where no table of tensors tells, how much of a file the processor's kernels want laid out anew,
by its type: of Llama 3.1 8B it is 0.84 of Q4_0 and 0.69 of Q4_K_M, for the table of words, and what
is kept in more bits, stay as they are.
"""


@dataclass(frozen=True, slots=True)
class Place:
    """The machine a forecast is for."""

    machine: Machine
    devices: tuple[DeviceInfo, ...]
    features: frozenset[str] = field(default_factory=usual_features)
    """What its llama.cpp was built with, in ggml's words."""

    @property
    def processor(self) -> str:
        """Its name, as far as anybody tells it."""
        return next((one.name for one in self.devices if one.kind == "cpu"), "processor")


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is known of a model, from the catalogue or from a header."""

    title: str
    metadata: dict[str, str]
    file_bytes: int
    quantisation: str | None = None
    vocabulary: int | None = None
    tensor_bytes: int | None = None
    tensors: tuple[Tensor, ...] = ()
    """All of them, or none."""


async def forecast(candidate: Candidate, place: Place, wish: Wish | None = None) -> MemoryPlan:
    """The plan that the model would probably get.

    Raises `DoesNotFit` where nothing of it fits, `ModelError` where no formula knows its kind.
    """
    geometry = read_geometry(candidate.metadata)
    if geometry is None:
        raise ModelError(f"{candidate.title} can only be sized from its file.")
    facts = facts_of(candidate, geometry)
    copies = _repacked_bytes(candidate, facts, place)

    async def dry_run(opening: Opening) -> Allocation:
        allocation = _foreseen(facts, geometry, opening.choice, place, copies)
        return allocation if _vocabulary(candidate) else _with_guessed_words(allocation)

    basis = Basis(facts, place.devices, place.machine, wish or Wish(), RUNTIME_BYTES)
    return await plan_memory(basis, dry_run)


def facts_of(candidate: Candidate, geometry: Geometry) -> ModelFacts:
    """What is known of the candidate, as if its file had been opened."""
    keys = ModelKeys(candidate.metadata)
    has_state = any(layer.state_width for layer in geometry.layers)
    return ModelFacts(
        path=candidate.title,
        name=candidate.title,
        architecture=keys.architecture or "unknown",
        file_bytes=candidate.file_bytes,
        context_train=keys.number("context_length"),
        num_layers=len(geometry.layers),
        num_vocab=_vocabulary(candidate) or LARGE_VOCABULARY,
        metadata=candidate.metadata,
        weight_bytes=candidate.file_bytes
        if candidate.tensor_bytes is None
        else candidate.tensor_bytes,
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


def _vocabulary(candidate: Candidate) -> int | None:
    return candidate.vocabulary or ModelKeys(candidate.metadata).number("vocab_size") or None


def _with_guessed_words(allocation: Allocation) -> Allocation:
    """The same, with logits that are an estimate, for nobody knows how many words there are."""
    return Allocation(
        tuple(replace(b, estimated=b.estimated or b.label == "output") for b in allocation.buffers)
    )


def _foreseen(
    facts: ModelFacts, geometry: Geometry, choice: Choice, place: Place, copies: int
) -> Allocation:
    pool = Pool.of(choice)
    activations = _activations(facts, choice.ubatch)
    output = output_bytes(facts.num_vocab, choice.num_ids)
    sizes: dict[Label, int] = {
        "weights": facts.weight_bytes,
        "kv": kv_bytes(geometry, pool, choice.kv_type_k, choice.kv_type_v),
        "recurrent": state_bytes(geometry, choice.num_ids),
        "compute": max(attention_bytes(geometry, pool) + activations, output),
        "output": output,
    }
    if choice.embedding_cells:
        sizes["embedding"] = embedding_bytes(geometry, facts.num_vocab, choice.embedding_cells)
    on_device = choice.gpu_layers / (facts.num_layers + 1)
    device = next((one.id for one in place.devices if one.kind != "cpu"), HOST)
    on_host = choice.host_experts / max(1, facts.num_layers)
    kept = int(facts.weight_bytes * _experts_part(facts) * on_host)
    buffers = [
        *_shared_out(sizes, device, on_device, kept),
        BufferSize(
            HOST, "weights", int(copies * (1 - on_device)), buffer_type="CPU_REPACK", estimated=True
        ),
    ]
    return Allocation(tuple(buffer for buffer in buffers if buffer.bytes))


def _activations(facts: ModelFacts, ubatch: int) -> int:
    """Room for what the layers hand on while `ubatch` tokens are computed, in f32.

    The widest moment is a feed-forward layer's, beside copies of what goes into it; 2 and 8 cover
    SmolLM2-135M and gemma-3-270m within a tenth.
    """
    keys = ModelKeys(facts.metadata)
    width = keys.number("embedding_length")
    hidden = max(keys.numbers("feed_forward_length"), default=0)
    experts = keys.number("expert_used_count")
    hidden = max(hidden, experts * keys.number("expert_feed_forward_length"))
    if width and hidden:
        return 4 * ubatch * (2 * hidden + 8 * width)
    part = facts.weight_bytes // _ACTIVATIONS_PART * ubatch // 512
    return min(max(part, _LEAST_ACTIVATIONS), _MOST_ACTIVATIONS)


def _experts_part(facts: ModelFacts) -> float:
    """What of the weights are experts, as the shapes of a usual layer suggest; 0 without any."""
    keys = ModelKeys(facts.metadata)
    width, hidden = keys.number("embedding_length"), keys.number("expert_feed_forward_length")
    experts = 3 * width * hidden * keys.number("expert_count")  # up, gate and down
    attention = 4 * width * width  # queries, keys, values and output
    words = 2 * width * facts.num_vocab  # coming in and going out
    return experts / max(1, experts + attention + words // max(1, facts.num_layers))


def _shared_out(
    sizes: dict[Label, int], device: str, share: float, kept_weights: int
) -> list[BufferSize]:
    """Weights and cells go with the layers that a graphics device takes; outputs stay, and the
    experts among the weights that are kept on the host.
    """
    buffers = []
    for label, size in sizes.items():
        moved = int(size * share) if label in {"weights", "kv", "recurrent", "compute"} else 0
        if label == "weights":
            moved = max(0, moved - kept_weights)
        is_guessed = label == "weights" and kept_weights > 0
        is_estimated = is_guessed or label in {"compute", "embedding"}
        for place, part in ((device, moved), (HOST, size - moved)):
            buffers.append(BufferSize(place, label, part, False, place, is_estimated))
    return buffers


def _repacked_bytes(candidate: Candidate, facts: ModelFacts, place: Place) -> int:
    """Copies for the processor if all layers stay on it."""
    if candidate.tensors:
        return repacked_bytes(candidate.tensors, place.features)
    label = (candidate.quantisation or "").removeprefix("UD-")
    parts = (part for name, part in _REPACKED.items() if label.startswith(name))
    return int(facts.weight_bytes * next(parts, 0))
