"""What llama.cpp allocates, in closed form: it explains a plan and guides the search for one.

The allocator itself (`dry_run`) is the authority; `docs/memory.md` has a worked example of
each formula. Source of the rules: llama-kv-cache.cpp, llama-kv-cache-iswa.cpp and
llama-memory-recurrent.cpp as carried by llama-cpp-python 0.3.36.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from edgekv.budget.geometry import Geometry, Layer
from edgekv.budget.kv_types import KV_TYPES
from edgekv.core.plan import CELL_PADDING, EMBEDDING_PART, Choice


@dataclass(frozen=True, slots=True)
class Pool:
    """How a context is opened, as far as its caches depend on it."""

    cells: int
    """Tokens asked for in all; llama.cpp pads them."""
    num_ids: int = 1
    ubatch: int = 512
    swa_full: bool = True
    flash_attention: bool = True
    is_unified: bool = True
    """One pool for all sequence ids, as EdgeKV opens it; else one equal part for each."""

    @classmethod
    def of(cls, choice: Choice) -> Pool:
        return cls(
            choice.cells,
            choice.num_ids,
            choice.ubatch,
            choice.swa_full,
            choice.flash_attention,
        )

    @property
    def num_streams(self) -> int:
        return 1 if self.is_unified else self.num_ids

    @property
    def stream_cells(self) -> int:
        """Cells of one stream."""
        return padded(self.cells if self.is_unified else self.cells // self.num_ids)


@dataclass(frozen=True, slots=True)
class CacheShape:
    """Layers that all have the same number of cells. Widths are elements a cell."""

    name: str
    cells: int
    """Of all streams together."""
    k_widths: tuple[int, ...]
    v_widths: tuple[int, ...]
    compression: int = 1
    """Tokens that one cell stands for."""

    def num_bytes(self, kv_type_k: str, kv_type_v: str) -> int:
        """Raises `ValueError` where a width is not whole blocks of its type."""
        k_bytes = sum(KV_TYPES[kv_type_k].row_bytes(width) for width in self.k_widths)
        v_bytes = sum(KV_TYPES[kv_type_v].row_bytes(width) for width in self.v_widths)
        return self.cells * (k_bytes + v_bytes)


def padded(cells: int) -> int:
    """Cells that llama.cpp really allocates for `cells`."""
    return -(-cells // CELL_PADDING) * CELL_PADDING


def window_cells(geometry: Geometry, pool: Pool) -> int:
    """Cells of one stream of the windowed layers' cache."""
    if pool.swa_full:
        return pool.stream_cells
    shares = pool.is_unified and geometry.is_shared
    windows = geometry.window * (pool.num_ids if shares else 1)
    in_flight = pool.ubatch
    return padded(min(pool.stream_cells, windows + in_flight))


def cache_shapes(geometry: Geometry, pool: Pool) -> tuple[CacheShape, ...]:
    """The caches of a context, those without any layer left out."""
    layers = geometry.layers
    streams = pool.num_streams if geometry.is_shared else pool.num_ids
    all_cells = pool.stream_cells * streams
    some_cells = window_cells(geometry, pool) * streams
    shapes = (
        _shape("full", all_cells, [x for x in layers if not x.is_windowed], geometry, pool),
        _shape("window", some_cells, [x for x in layers if x.is_windowed], geometry, pool),
        *_compressed(geometry, pool, streams),
    )
    return tuple(shape for shape in shapes if shape.k_widths)


def _compressed(geometry: Geometry, pool: Pool, streams: int) -> Iterator[CacheShape]:
    """The index keys, and what compressing layers keep beside their windows."""
    for ratio in sorted({layer.compression for layer in geometry.layers}):
        layers = [layer for layer in geometry.layers if layer.compression == ratio]
        tokens = max(1, ratio)
        cells = padded(-(-pool.stream_cells // tokens)) * streams
        indexes = tuple(layer.index_width for layer in layers if layer.index_width)
        yield CacheShape("index", cells, indexes, (), tokens)
        if ratio:
            keys = tuple(layer.k_width for layer in layers)
            yield CacheShape("compressed", cells, keys, (), tokens)


def _shape(
    name: str, cells: int, layers: list[Layer], geometry: Geometry, pool: Pool
) -> CacheShape:
    caching = [layer for layer in layers if layer.k_width]
    v_widths = (layer.v_width for layer in caching)
    if not pool.flash_attention:
        # Values are then stored transposed, which takes one width for the whole model.
        v_widths = (geometry.widest_value if width else 0 for width in v_widths)
    return CacheShape(name, cells, tuple(layer.k_width for layer in caching), tuple(v_widths))


def kv_bytes(geometry: Geometry, pool: Pool, kv_type_k: str, kv_type_v: str) -> int:
    """All cells of all caches. Raises `ValueError` where a type does not fit the widths."""
    shapes = cache_shapes(geometry, pool)
    return sum(shape.num_bytes(kv_type_k, kv_type_v) for shape in shapes)


def kv_bytes_per_cell(geometry: Geometry) -> dict[str, int]:
    """Bytes one token takes with every window in full, by each KV type that fits the widths."""
    one_token = tuple(replace(shape, cells=1) for shape in cache_shapes(geometry, Pool(cells=1)))
    costs = {}
    for name in KV_TYPES:
        if fits_widths(geometry, name):
            costs[name] = sum(
                shape.num_bytes(name, name) // shape.compression for shape in one_token
            )
    return costs


def fits_widths(geometry: Geometry, kv_type: str) -> bool:
    """Whether every row of every cache is whole blocks of the type."""
    length = KV_TYPES[kv_type].block_length
    widths = (w for x in geometry.layers for w in (x.k_width, x.v_width, x.index_width))
    return not any(width % length for width in widths)


def state_bytes(geometry: Geometry, num_ids: int, draft_depth: int = 0) -> int:
    """Recurrent state of all sequence ids, whatever the number of cells.

    With speculation each id keeps one more copy for each drafted token.
    """
    bytes_per_element = 4  # always f32
    elements = sum(layer.state_width for layer in geometry.layers)
    return bytes_per_element * elements * max(1, num_ids) * (1 + draft_depth)


def output_bytes(num_vocab: int, num_ids: int) -> int:
    """The logits that a step may ask for: one row a sequence id, in f32."""
    return num_ids * num_vocab * 4


def embedding_bytes(geometry: Geometry, num_vocab: int, cells: int) -> int:
    """What a context for texts of `cells` tokens takes beside the answers' one, nearly: f16 cells,
    and logits that are computed and copied for every token of a part.
    """
    pool = Pool(cells, ubatch=EMBEDDING_PART, swa_full=False)
    logits = output_bytes(num_vocab, EMBEDDING_PART)
    computed_and_copied = 2 * logits
    state = state_bytes(geometry, num_ids=1)
    return kv_bytes(geometry, pool, "f16", "f16") + state + computed_and_copied


def attention_bytes(geometry: Geometry, pool: Pool) -> int:
    """The part of the compute buffer that grows with the pool.

    A mask says who may see which cell: an element for each cell and each token computed at once,
    f16 with flash attention and f32 without. Windowed layers have a mask of their own.
    """
    if not geometry.has_cells:
        return 0
    cells = pool.stream_cells
    if geometry.window:
        cells += window_cells(geometry, pool)
    width = 2 if pool.flash_attention else 4
    return width * cells * pool.ubatch + score_bytes(geometry, pool)


def score_bytes(geometry: Geometry, pool: Pool) -> int:
    """One layer's attention scores: f32, for each query head, cell and token computed at once.

    Flash attention never writes them down. Source: `llm_graph_context::build_attn_mha`.
    """
    if pool.flash_attention or not geometry.has_cells:
        return 0
    return 4 * geometry.query_heads * pool.stream_cells * pool.ubatch
