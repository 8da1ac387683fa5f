"""Models and an allocator of known sizes for the planner's tests."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from edgekv.budget.devices import HOST
from edgekv.budget.formulas import (
    Pool,
    attention_bytes,
    embedding_bytes,
    kv_bytes,
    output_bytes,
    state_bytes,
)
from edgekv.budget.geometry import read_geometry
from edgekv.budget.machine import Machine, Reading, system_reserve
from edgekv.budget.outcomes import Outcome
from edgekv.budget.planner import Basis, plan_memory
from edgekv.budget.wish import Wish
from edgekv.core.plan import (
    Allocation,
    BufferSize,
    DeviceInfo,
    Label,
    MemoryPlan,
    ModelFacts,
    Opening,
)

MIB, GIB = 1024**2, 1024**3
RUNTIME_BYTES = 64 * MIB
EXPERT_PART = 7 / 8


def model(
    architecture: str = "llama",
    *,
    weight_bytes: int = 256 * MIB,
    layers: int = 16,
    context_train: int = 32768,
    num_vocab: int = 32000,
    **keys: object,
) -> ModelFacts:
    """A model of 32 KiB a token in f16, unless `keys` (dots as `__`) say otherwise."""
    values: dict[str, object] = {
        "block_count": layers,
        "embedding_length": 1024,
        "attention__head_count": 16,
        "attention__head_count_kv": 8,
        "attention__key_length": 64,
        "attention__value_length": 64,
        **keys,
    }
    metadata = {f"{architecture}.{key.replace('__', '.')}": str(v) for key, v in values.items()}
    return ModelFacts(
        path="model.gguf",
        name="Test model",
        architecture=architecture,
        file_bytes=weight_bytes + MIB,
        context_train=context_train,
        num_layers=layers,
        num_vocab=num_vocab,
        metadata=metadata | {"general.architecture": architecture},
        weight_bytes=weight_bytes,
        window=int(str(values.get("attention__sliding_window", 0))),
        is_recurrent=architecture == "rwkv7",
        is_hybrid=architecture == "qwen35",
        has_decoder=True,
        chat_template=None,
        bos_text="",
        eos_text="",
        adds_bos=False,
        control_texts=(),
    )


WINDOWED = {"attention__sliding_window": 512, "attention__head_count_kv": 8}
HYBRID = {
    "full_attention_interval": 4,
    "ssm__conv_kernel": 4,
    "ssm__inner_size": 2048,
    "ssm__state_size": 128,
    "ssm__group_count": 16,
}


def machine(available: int, *, cores: int = 2) -> Machine:
    """A host with as much memory in all as is available, and no reserve worth mentioning."""
    return Machine(
        total=Reading(available, "test"),
        available=Reading(available, "test"),
        reserve=system_reserve(available),
        usable_cpus=Reading(cores, "test"),
        cores=Reading(cores, "test"),
    )


class KnownAllocator:
    """A library whose compute buffers no closed formula foresees.

    They have a part that grows faster than linear with the tokens at once, and one that
    quantised cells add. The last `gpu_layers - 1` layers and the output go to `gpu`, without the
    experts of the first `host_experts` layers, which are `EXPERT_PART` of a layer's weights.
    """

    def __init__(self, facts: ModelFacts, gpu: str | None = None) -> None:
        self._facts, self._gpu = facts, gpu
        self.openings: list[Opening] = []

    async def dry_run(self, opening: Opening) -> Allocation:
        self.openings.append(opening)
        return self.allocation(opening)

    def allocation(self, opening: Opening) -> Allocation:
        choice, facts = opening.choice, self._facts
        geometry = read_geometry(facts.metadata)
        assert geometry is not None
        pool = Pool.of(choice)
        kv = kv_bytes(geometry, pool, choice.kv_type_k, choice.kv_type_v)
        scratch = choice.cells * 512 if choice.kv_type_k == "q8_0" else 0
        compute = attention_bytes(geometry, pool) + choice.ubatch**2 * 64 + MIB + scratch
        share = min(choice.gpu_layers, facts.num_layers + 1) / (facts.num_layers + 1)
        sizes: dict[Label, int] = {
            "weights": facts.weight_bytes,
            "kv": kv,
            "recurrent": state_bytes(geometry, choice.num_ids),
        }
        buffers = [
            BufferSize(HOST, "output", output_bytes(facts.num_vocab, choice.num_ids)),
            BufferSize(HOST, "compute", compute),
        ]
        if share:
            assert self._gpu is not None
            buffers.append(BufferSize(self._gpu, "compute", compute))
        if choice.embedding_cells:
            embedding = embedding_bytes(geometry, facts.num_vocab, choice.embedding_cells)
            buffers.append(BufferSize(HOST, "embedding", embedding + MIB))
        for label, size in sizes.items():
            on_gpu = int(size * share)
            if label == "weights":
                on_gpu -= int(size * EXPERT_PART * choice.host_experts / (facts.num_layers + 1))
            if on_gpu:
                assert self._gpu is not None
                buffers.append(BufferSize(self._gpu, label, on_gpu, buffer_type=self._gpu))
            buffers.append(BufferSize(HOST, label, size - on_gpu, buffer_type=HOST))
        return Allocation(tuple(buffer for buffer in buffers if buffer.bytes))


PLENTY = machine(64 * GIB)


Q8_PASSED = Outcome("q8_0", "q8_0", quick=True, longest=2048, objection=None)


def plan(
    wish: Wish | None = None,
    facts: ModelFacts | None = None,
    host: Machine = PLENTY,
    gpu: DeviceInfo | None = None,
    tested: tuple[Outcome, ...] = (Q8_PASSED,),
) -> MemoryPlan:
    facts = facts or model()
    library = KnownAllocator(facts, gpu.id if gpu else None)
    devices = (gpu,) if gpu else ()
    basis = Basis(facts, devices, host, wish or Wish(), RUNTIME_BYTES, tested)
    return asyncio.run(plan_memory(basis, library.dry_run))


def with_memory(num_bytes: int, **wishes: int | str | None) -> Wish:
    return replace(Wish(memory_bytes=num_bytes), **wishes)  # type: ignore[arg-type]


def graphics(free: int, *, unified: bool = False, total: int | None = None) -> DeviceInfo:
    return DeviceInfo("CUDA0", "cuda", "GPU", total or free, free, unified)
