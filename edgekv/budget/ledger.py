"""An allocation as lines that say what each byte is for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from edgekv.budget.devices import HOST
from edgekv.budget.formulas import Pool, cache_shapes, kv_bytes, score_bytes, state_bytes
from edgekv.budget.geometry import Geometry
from edgekv.budget.machine import MIB
from edgekv.budget.sizes import counted, format_size
from edgekv.core.plan import Allocation, BufferSize, Choice, CostLine, ModelFacts

MOVED_CELLS = 256
"""At most so many cells are copied to or from the store at once."""


GRAMMAR_CACHE_BYTES = 8 * MIB
"""Of compiled schemas and other grammars beside those in use; most take 1 to 2 MiB."""


@dataclass(frozen=True, slots=True)
class Engine:
    """What an allocation turns into in the engine process. Sizes are bytes."""

    facts: ModelFacts
    geometry: Geometry | None
    use_mmap: bool
    runtime_bytes: int
    """Resident with nothing loaded but the libraries and the vocabulary."""
    follows_grammars: bool = False
    """Answers may be held to schemas."""

    @property
    def grammar_bytes(self) -> int:
        """What the first schema loads, which knows every token of the vocabulary, and the cache."""
        if not self.follows_grammars:
            return 0
        code, token = 6 * MIB, 220
        return code + self.facts.num_vocab * token + GRAMMAR_CACHE_BYTES


def cost_lines(engine: Engine, choice: Choice, allocation: Allocation) -> tuple[CostLine, ...]:
    """Everything that the engine process will hold, the largest claims of a device first."""
    is_on_host_alone = all(buffer.device == HOST for buffer in allocation.buffers)
    if engine.use_mmap and is_on_host_alone:
        weights = _mapped_weights(engine, allocation)
    else:
        weights = [_plain_weights(b) for b in allocation.buffers if b.label == "weights"]
    lines = [
        *weights,
        *(_buffer(engine, choice, b) for b in allocation.buffers if b.label != "weights"),
        *_own_lines(engine, choice),
    ]
    return tuple(line for line in lines if line.bytes)


def _mapped_weights(engine: Engine, allocation: Allocation) -> Iterable[CostLine]:
    size = engine.facts.file_bytes
    yield CostLine(HOST, "weights", size, "the model file, mapped and counted in full")
    for buffer in allocation.buffers:
        if buffer.label == "weights" and buffer.buffer_type not in {"", "CPU", "CPU_Mapped"}:
            yield CostLine(
                HOST,
                "weights",
                buffer.bytes,
                _marked(buffer, f"copies laid out for this CPU ({buffer.buffer_type})"),
                not buffer.estimated,
            )


def _plain_weights(buffer: BufferSize) -> CostLine:
    how = "copied from the file"
    if buffer.buffer_type not in {"", buffer.device}:
        how += f" ({buffer.buffer_type})"
    how = _marked(buffer, how)
    return CostLine(buffer.device, "weights", buffer.bytes, how, not buffer.estimated)


def _marked(buffer: BufferSize, how: str) -> str:
    return f"estimated: {how}" if buffer.estimated else how


def _buffer(engine: Engine, choice: Choice, buffer: BufferSize) -> CostLine:
    ids = counted(choice.num_ids, "sequence id")
    match buffer.label:
        case "kv":
            how = _kv_sentence(engine.geometry, choice)
        case "recurrent":
            how = f"state of recurrent layers for {ids}, whatever the context"
        case "output":
            how = f"{ids} x {engine.facts.num_vocab:,} words of the vocabulary x 4 bytes"
        case "adapter":
            how = "a LoRA adapter, copied from its file"
        case "embedding":
            how = (
                f"texts of up to {choice.embedding_cells:,} tokens to embed "
                "(--no-embeddings leaves it out)"
            )
        case _:
            how = f"room to compute {choice.ubatch} tokens at once over {choice.cells:,} cells"
            if not choice.flash_attention:
                how += ", with the attention scores of a layer (--flash-attention on saves them)"
    how = _marked(buffer, how)
    return CostLine(buffer.device, buffer.label, buffer.bytes, how, not buffer.estimated)


def _kv_sentence(geometry: Geometry | None, choice: Choice) -> str:
    types = choice.kv_type_k
    if choice.kv_type_v != choice.kv_type_k:
        types += f" keys and {choice.kv_type_v} values"
    if geometry is None:
        return f"{choice.cells:,} cells of {types}"
    parts = (
        f"{shape.cells:,} cells x {len(shape.k_widths)} {_LAYERS[shape.name]} layers"
        for shape in cache_shapes(geometry, Pool.of(choice))
    )
    return f"{types}, {' + '.join(parts)}"


_LAYERS = {"full": "attention", "window": "window", "index": "indexer", "compressed": "compressed"}


def _own_lines(engine: Engine, choice: Choice) -> Iterable[CostLine]:
    growth = growth_bytes(engine.geometry, engine.facts.num_vocab, choice) + engine.grammar_bytes
    schemas = f", {format_size(engine.grammar_bytes)} of it for schemas"
    yield CostLine(
        HOST,
        "runtime",
        engine.runtime_bytes + growth,
        f"Python, libraries and vocabulary: {format_size(engine.runtime_bytes)} without a model "
        f"+ {format_size(growth)} that requests add{schemas if engine.grammar_bytes else ''}",
        exact=False,
    )
    cache = choice.host_cache_bytes
    moving = moving_bytes(engine.geometry, choice) if cache else 0
    how = (
        f"copies of suspended and idle conversations: {format_size(cache)} (--host-cache) "
        f"+ {format_size(moving)} on their way"
    )
    yield CostLine(HOST, "host_cache", cache + moving, how)


def growth_bytes(geometry: Geometry | None, num_vocab: int, choice: Choice) -> int:
    """What the engine process takes on top once it answers, outside the library's buffers.

    `docs/memory.md` has the measurements.
    """
    code_and_graphs = 8 * MIB  # library pages first touched then, graph nodes, thread stacks
    if choice.embedding_cells:
        code_and_graphs += 12 * MIB  # of a second context
    candidates = choice.slots * num_vocab * 12  # a sampler's (token, logit, probability)
    shapes = () if geometry is None else cache_shapes(geometry, Pool.of(choice))
    table_entry = 48  # position, extent, shift and a bit for each sequence id
    tree_nodes = 3 * 48  # llama.cpp sorts used cells, and each holder's: a slot and a kept one
    cells = sum(shape.cells for shape in shapes) + choice.embedding_cells
    tables = cells * (table_entry + tree_nodes)
    tokens = choice.cells * 64  # our lists of them
    # ggml_graph_plan takes room to round the scores to f16, for a product with f16 values.
    scores = 0 if geometry is None else score_bytes(geometry, Pool.of(choice)) // 2
    return code_and_graphs + candidates + tables + tokens + scores


def moving_bytes(geometry: Geometry | None, choice: Choice) -> int:
    """What a copy of cells takes while it is made: the library's, and ours."""
    if geometry is None:
        return 0
    piece = Pool(cells=min(MOVED_CELLS, choice.cells))
    cells = kv_bytes(geometry, piece, choice.kv_type_k, choice.kv_type_v)
    return 2 * (cells + state_bytes(geometry, num_ids=1))
