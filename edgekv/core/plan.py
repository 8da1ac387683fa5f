"""What will be allocated and why: the values that `edgekv plan --json` prints.

All sizes are bytes. The field names of `MemoryPlan` and of what it holds are the
stable JSON schema 1.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

DeviceKind: TypeAlias = Literal["cpu", "cuda", "metal", "vulkan", "rpc"]
Label: TypeAlias = Literal[
    "weights",
    "kv",
    "recurrent",
    "compute",
    "output",
    "embedding",
    "adapter",
    "host_cache",
    "runtime",
]

KVStanding: TypeAlias = Literal["passed", "refused", "unvalidated"]
"""What the gate knows of KV types on a model, at the length of a plan's conversations."""

CELL_PADDING = 256
"""llama.cpp rounds the number of cells up to a multiple of this."""
EMBEDDING_PART = 16
"""Tokens of a text to embed that a model which could also write computes at once.

The library reserves logits for each of them, twice vocabulary x 4 bytes, although nobody wants
them: 512 would take gemma-3-270m a gibibyte.
"""


class DeviceInfo(msgspec.Struct, frozen=True):
    """A device as ggml reports it. `free_bytes` is None where it is not known."""

    id: str
    """ggml's name: "CPU", "CUDA0", …"""
    kind: DeviceKind
    name: str
    total_bytes: int
    free_bytes: int | None
    unified: bool = False
    """It shares the host's memory, so its bytes are not counted again."""
    latency_ms: float | None = None
    """A message to a worker and its answer, at best; None for devices of this machine."""
    address: str = ""
    """On the PCI bus: "0000:01:00.0"; "" where it has none that is known."""
    source: str = ""
    """How `free_bytes` was read, where somebody else than ggml told it."""


class ModelFacts(msgspec.Struct, frozen=True):
    """What a model file says about itself."""

    path: str
    name: str
    architecture: str
    file_bytes: int
    context_train: int
    num_layers: int
    num_vocab: int
    metadata: dict[str, str]
    """Every GGUF key with its value as text; arrays as "[a, b, …]"."""
    weight_bytes: int
    """Sum of all tensors as stored in the file."""
    window: int
    """Tokens that window layers see; 0 if the model has none."""
    is_recurrent: bool
    is_hybrid: bool
    has_decoder: bool
    chat_template: str | None
    bos_text: str
    eos_text: str
    adds_bos: bool
    control_texts: tuple[str, ...]
    """Texts that tokenise to control tokens; they stay plain text inside a user's words."""
    infill_marks: tuple[str, str, str] | None = None
    """Control texts before what precedes a gap, before what follows it, and before what fills it;
    None where the model was not trained to fill gaps."""
    active_bytes: int | None = None
    """What of the weights is read to compute one token; None where its tensors were not listed."""

    @property
    def can_write(self) -> bool:
        """Whether it continues texts; an encoder only gives vectors of them."""
        causal = self.metadata.get(f"{self.architecture}.attention.causal")
        return self.has_decoder and causal != "false"

    def can_share_prefixes(self, swa_full: bool) -> bool:
        """Whether any prefix of a sequence may be shared or cut.

        Recurrent state has no past to go back to, and a bounded window has dropped it.
        """
        return not self.is_recurrent and not self.is_hybrid and (swa_full or not self.window)


class Choice(msgspec.Struct, frozen=True):
    """Everything that decides what a context allocates."""

    context_length: int
    """Tokens one conversation may hold, prompt and answer together."""
    slots: int
    """Conversations decoded at once."""
    cells: int
    """Tokens the pool holds in all; a multiple of `CELL_PADDING`."""
    kv_type_k: str
    kv_type_v: str
    gpu_layers: int
    batch: int
    """Tokens one step may hold."""
    ubatch: int
    """Tokens the library computes at once; the compute buffer grows with it."""
    swa_full: bool
    """Window layers keep every cell, so that prefixes can be shared anywhere."""
    flash_attention: bool
    kept: int = 0
    """Sequence ids beyond `slots`, for finished conversations that stay in the pool."""
    threads: int = 1
    host_cache_bytes: int = 0
    """Host memory for copies of suspended and idle conversations."""
    embedding_cells: int = 0
    """Tokens that one text to embed may have; its context is apart from the pool. 0: none is."""
    host_experts: int = 0
    """Layers, from the first on, whose experts stay in the host's memory wherever the rest is."""
    worker_layers: tuple[int, ...] = ()
    """How many of `gpu_layers` each device of a worker holds, in the order of the plan's devices;
    empty where workers hold none."""

    @property
    def num_seqs(self) -> int:
        """Sequence ids that conversations can have."""
        return self.slots + self.kept

    @property
    def num_ids(self) -> int:
        """Sequence ids in all: one more, through which cells move to and from the store."""
        return self.num_seqs + 1


class Adapter(msgspec.Struct, frozen=True):
    """A LoRA adapter, and how strongly it counts: 1 is as it was trained."""

    path: str
    scale: float = 1.0


class Opening(msgspec.Struct, frozen=True):
    """One model opened in one way."""

    path: str
    choice: Choice
    use_mmap: bool = True
    adapters: tuple[Adapter, ...] = ()
    can_write: bool = True
    """False for models that only give vectors of texts: to decode one would end the process."""
    share_prefixes: bool = True
    """False where a cut or a share would be wrong: recurrent state, bounded windows."""
    store_path: str | None = None
    """A folder for copies of conversations that outlive the process. None: nothing is written."""
    disk_cache_bytes: int = 0
    """What may be written there, files of other models included."""
    max_gap_ms: int = 250
    """How long a step may take while answers are under way, as far as prompts decide; 0: as long
    as a whole batch takes."""
    max_waiting: int | None = None
    """Requests that may wait beyond those that a free slot will take. None: any number."""


class BufferSize(msgspec.Struct, frozen=True):
    device: str
    label: Label
    bytes: int
    mapped: bool = False
    """File-backed pages rather than memory of our own."""
    buffer_type: str = ""
    """The library's name for the kind of memory: "CPU", "CPU_Mapped", "CPU_REPACK", "CUDA0", …"""
    estimated: bool = False
    """Neither the library's allocator nor a closed formula gave this size."""


class Allocation(msgspec.Struct, frozen=True):
    """What the library allocated, or in a dry run would allocate."""

    buffers: tuple[BufferSize, ...]

    def total(self, label: Label) -> int:
        return sum(b.bytes for b in self.buffers if b.label == label)


class PlannedModel(msgspec.Struct, frozen=True):
    path: str
    name: str
    architecture: str
    file_bytes: int
    context_train: int
    kv_bytes_per_cell: dict[str, int]
    """Bytes one token takes in the pool, by KV type, if K and V have the same type."""


class PlannedDevice(msgspec.Struct, frozen=True):
    id: str
    kind: DeviceKind
    name: str
    total_bytes: int
    free_bytes: int
    budget_bytes: int
    unified: bool
    source: str
    """How the numbers were read."""
    latency_ms: float | None = None
    """A message to a worker and its answer, at best; None for devices of this machine."""


class CostLine(msgspec.Struct, frozen=True):
    device: str
    label: Label
    bytes: int
    how: str
    """One sentence: where the number comes from."""
    exact: bool = True
    """To the byte; otherwise an estimate or an allowance."""


class MemoryPlan(msgspec.Struct, frozen=True):
    """What will be allocated. The sum of `lines` is the whole claim."""

    schema: int
    model: PlannedModel
    devices: tuple[PlannedDevice, ...]
    choice: Choice
    lines: tuple[CostLine, ...]
    total_bytes: int
    budget_bytes: int
    fits: bool
    limits: tuple[str, ...]
    """What bounds the plan, and what would lift each bound."""
    kv_standing: KVStanding | None = None
    """None for KV types that need no test."""

    @property
    def local_bytes(self) -> int:
        """What of it is taken of this machine."""
        elsewhere = {device.id for device in self.devices if device.kind == "rpc"}
        return sum(line.bytes for line in self.lines if line.device not in elsewhere)
