"""What a choice would allocate, foreseen from a dry run of a similar one.

Only the library's allocator knows its compute buffers. But most of an allocation follows
from closed formulas, so one dry run tells enough to compare hundreds of choices.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from edgekv.budget.devices import HOST
from edgekv.budget.dry_run import DryRun
from edgekv.budget.formulas import (
    Pool,
    attention_bytes,
    embedding_bytes,
    kv_bytes,
    output_bytes,
    state_bytes,
)
from edgekv.budget.geometry import Geometry, Layer
from edgekv.core.plan import Allocation, BufferSize, Choice

_ONE_LAYER = Geometry((Layer(k_width=1),))


def estimate(run: DryRun, geometry: Geometry | None, num_vocab: int, choice: Choice) -> Allocation:
    """The allocation of `choice`, exact where it equals the dry run's.

    Buffers keep their devices, so both choices should have the same number of GPU layers.
    Raises `ValueError` where a KV type does not fit the model's widths.
    """
    known, wanted = _Sizes(geometry, num_vocab, run.choice), _Sizes(geometry, num_vocab, choice)
    buffers = [_scaled(buffer, known, wanted) for buffer in run.allocation.buffers]
    if wanted.embedding and not known.embedding:
        buffers.append(BufferSize(HOST, "embedding", wanted.embedding))
    return Allocation(tuple(buffers))


@dataclass(frozen=True, slots=True)
class _Sizes:
    """What the formulas say of one choice. Without a geometry everything grows with the cells."""

    geometry: Geometry | None
    num_vocab: int
    choice: Choice

    @property
    def kv(self) -> int:
        if self.geometry is None:
            return self.choice.cells
        choice = self.choice
        return kv_bytes(self.geometry, Pool.of(choice), choice.kv_type_k, choice.kv_type_v)

    @property
    def state(self) -> int:
        if self.geometry is None:
            return self.choice.num_ids
        return state_bytes(self.geometry, self.choice.num_ids)

    @property
    def output(self) -> int:
        return output_bytes(self.num_vocab, self.choice.num_ids)

    @property
    def embedding(self) -> int:
        cells = self.choice.embedding_cells
        if not cells or self.geometry is None:
            return cells
        return embedding_bytes(self.geometry, self.num_vocab, cells)

    @property
    def attention(self) -> int:
        return attention_bytes(self.geometry or _ONE_LAYER, Pool.of(self.choice))


def _scaled(buffer: BufferSize, known: _Sizes, wanted: _Sizes) -> BufferSize:
    match buffer.label:
        case "kv":
            size = _in_proportion(buffer.bytes, known.kv, wanted.kv)
        case "recurrent":
            size = _in_proportion(buffer.bytes, known.state, wanted.state)
        case "output":
            size = _in_proportion(buffer.bytes, known.output, wanted.output)
        case "embedding":
            size = _in_proportion(buffer.bytes, known.embedding, wanted.embedding)
        case "compute":
            size = _compute(buffer.bytes, known, wanted)
        case _:
            size = buffer.bytes
    return replace(buffer, bytes=size)


def _in_proportion(size: int, known: int, wanted: int) -> int:
    return size * wanted // known if known else size


def _compute(size: int, known: _Sizes, wanted: _Sizes) -> int:
    """What follows cells x tokens at once, and activations, which follow the tokens alone.

    Their room is used again for the logits when the layers are done.
    """
    activations = max(0, size - known.attention)
    activations = _in_proportion(activations, known.choice.ubatch, wanted.choice.ubatch)
    return max(wanted.attention + activations, wanted.output)
