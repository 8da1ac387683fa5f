"""What a model keeps for every token and every conversation, from its GGUF metadata.

These are llama.cpp's own rules (`load_arch_hparams` of each model and
`llama_model::create_memory`, as carried by llama-cpp-python 0.3.36). Most models need only
the general ones; what an architecture does otherwise is in the tables below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgekv.budget.metadata import ModelKeys, at
from edgekv.budget.recurrence import keeps_state, width_of_state


@dataclass(frozen=True, slots=True)
class Layer:
    """What one layer keeps. Widths are elements a token; 0 means it keeps none."""

    k_width: int = 0
    v_width: int = 0
    is_windowed: bool = False
    """It sees only the last `Geometry.window` tokens."""
    index_width: int = 0
    """Keys of a sparse-attention indexer, in a cache of their own."""
    compression: int = 0
    """Its keys are kept a second time, one for so many tokens; index keys are then as few."""
    state_width: int = 0
    """Recurrent state, in f32 elements a sequence id, whatever the context."""


@dataclass(frozen=True, slots=True)
class Geometry:
    layers: tuple[Layer, ...]
    window: int = 0
    """Tokens a windowed layer sees; 0 if there is no such layer."""
    widest_value: int = 0
    """The largest value width of any layer, those without a cache of their own included."""
    query_heads: int = 0
    """The most of any layer."""
    is_shared: bool = True
    """Sequence ids can use one pool; otherwise each has as many cells as the pool."""

    @property
    def has_cells(self) -> bool:
        """Whether a token takes any memory at all."""
        return any(layer.k_width or layer.v_width for layer in self.layers)


@dataclass(frozen=True, slots=True)
class _WindowRule:
    """Which layers are windowed where the file does not list them.

    Of every `period` layers one sees everything: the last, or the first if `dense_first`.
    """

    period: int
    dense_first: bool = False
    window: int | None = None
    """The window, where the file may leave it out."""
    is_fixed: bool = False
    """`window` holds whatever the file says, unless that is 0."""


# Architectures that are not here run without windows even where their files name one
# (phi3 and qwen2 do). Period 0 stands for files that must list their windowed layers.
_WINDOW_RULES = {
    "afmoe": _WindowRule(4),
    "cohere2": _WindowRule(4),
    "cohere2moe": _WindowRule(4, dense_first=True),
    "deepseek4": _WindowRule(0),
    "dots3note": _WindowRule(0),
    "exaone-moe": _WindowRule(4, window=128),
    "exaone4": _WindowRule(4, window=4096),
    "gemma2": _WindowRule(2, window=4096),
    "gemma3": _WindowRule(6),
    "gemma3n": _WindowRule(5),
    "gemma4": _WindowRule(0),
    "gpt-oss": _WindowRule(2),
    "granite-swa": _WindowRule(0),
    "laguna": _WindowRule(4, dense_first=True),
    "lfm2": _WindowRule(1),
    "llama4": _WindowRule(4, window=8192, is_fixed=True),
    "maple": _WindowRule(0),
    "mellum": _WindowRule(4),
    "mimo2": _WindowRule(0),
    "muse-glimmer": _WindowRule(4),
    "olmo2": _WindowRule(4),
    "plamo3": _WindowRule(8),
    "smallthinker": _WindowRule(4, dense_first=True, window=4096, is_fixed=True),
    "spark2-5": _WindowRule(0),
    "step35": _WindowRule(0),
}

FINE_COMPRESSION, COARSE_COMPRESSION = 4, 128
"""Tokens for which DeepSeek V4 keeps one key, in layers with and without an indexer."""

_ENCODERS = {
    "bert",
    "dream",
    "eurobert",
    "gemma-embedding",
    "jina-bert-v2",
    "jina-bert-v3",
    "llada",
    "llada-moe",
    "modern-bert",
    "neo-bert",
    "nomic-bert",
    "nomic-bert-moe",
    "rnd1",
    "wavtokenizer-dec",
}
# Caches that follow rules of their own; only llama.cpp's allocator can size them.
_NO_CLOSED_FORM = {"dflash"}
_CACHES_DRAFTS = {"deepseek4", "hy_v4", "minimax-m3"}
_INDEXED = {"deepseek32", "glm-dsa", "glm5-next", "dots3note", "minimax-m3", "hy_v4", "qwen4exp"}


def read_geometry(metadata: Mapping[str, str]) -> Geometry | None:
    """The geometry that `metadata` (every GGUF key, with its value as text) describes.

    None where llama.cpp's rules for the architecture have no closed form. A key that is
    missing or makes no sense counts as 0, so a damaged file gives a small geometry, not an
    error; llama.cpp is the one to refuse it.
    """
    keys = ModelKeys(metadata)
    if keys.architecture in _NO_CLOSED_FORM:
        return None
    if keys.architecture in _ENCODERS:
        return Geometry(())
    num_layers = _caching_layers(keys) * max(1, keys.number("num_loops"))
    numbers = range(min(max(0, num_layers), 512))  # llama.cpp refuses more
    window = _window(keys)
    kept = _layers_with_own_cache(keys, len(numbers))
    layers = tuple(
        _layer(keys, il, is_windowed=window > 0 and _is_windowed(keys, il)) for il in numbers
    )
    return Geometry(
        layers=tuple(
            layer if il < kept else Layer(state_width=layer.state_width)
            for il, layer in enumerate(layers)
        ),
        window=window if any(layer.is_windowed for layer in layers) else 0,
        widest_value=max((layer.v_width for layer in layers), default=0),
        query_heads=max(keys.numbers("attention.head_count"), default=0),
        is_shared=keys.architecture != "deepseek4",
    )


def _layer(keys: ModelKeys, il: int, *, is_windowed: bool) -> Layer:
    if keys.architecture == "deepseek4":
        return _compressed_layer(keys, il, is_windowed=is_windowed)
    is_recurrent = keeps_state(keys, il)
    state_width = width_of_state(keys) if is_recurrent else 0
    if is_recurrent and keys.architecture != "falcon-h1":  # its layers do both
        return Layer(state_width=state_width)
    heads = keys.kv_heads(il)
    has_values = not keys.number("attention.key_length_mla")
    return Layer(
        k_width=heads * keys.head_length("key", is_windowed=is_windowed),
        v_width=heads * keys.head_length("value", is_windowed=is_windowed) if has_values else 0,
        is_windowed=is_windowed,
        index_width=keys.number("attention.indexer.key_length") if _is_indexed(keys, il) else 0,
        state_width=state_width,
    )


def _compressed_layer(keys: ModelKeys, il: int, *, is_windowed: bool) -> Layer:
    """DeepSeek V4: keys alone, in a window and compressed, with the compressors' states.

    Source: llama-kv-cache-dsv4.cpp.
    """
    width = keys.kv_heads(il) * keys.head_length("key", is_windowed=is_windowed)
    index_width = keys.number("attention.indexer.key_length")
    ratio = at(keys.numbers("attention.compress_ratios"), il)
    keys_and_scores, overlapping = 2, 2
    if ratio == FINE_COMPRESSION:
        rows = overlapping * ratio
        state = keys_and_scores * rows * overlapping * (width + index_width)
        return Layer(width, 0, is_windowed, index_width, ratio, state)
    if ratio == COARSE_COMPRESSION:
        return Layer(width, 0, is_windowed, 0, ratio, keys_and_scores * ratio * width)
    return Layer(width, 0, is_windowed)


def _window(keys: ModelKeys) -> int:
    rule = _WINDOW_RULES.get(keys.architecture)
    if rule is None:
        return 0
    stated = keys.number("attention.sliding_window", rule.window or 0)
    if keys.architecture == "exaone4" and keys.number("block_count") != 64:
        return 0  # only the 32B model has windows
    return rule.window or 0 if stated and rule.is_fixed else stated


def _is_windowed(keys: ModelKeys, il: int) -> bool:
    listed = keys.numbers("attention.sliding_window_pattern")
    if len(listed) > 1:
        return bool(at(listed, il))
    rule = _WINDOW_RULES[keys.architecture]
    if keys.architecture == "lfm2":
        return not keeps_state(keys, il)
    period = listed[0] if listed else rule.period
    if period == 0:
        return True
    return il % period != (0 if rule.dense_first else period - 1)


def _is_indexed(keys: ModelKeys, il: int) -> bool:
    if keys.architecture not in _INDEXED:
        return False
    if keys.architecture == "minimax-m3":
        return il >= keys.number("leading_dense_block_count")
    if keys.architecture == "hy_v4" and not keys.number("attention.indexer.top_k"):
        return False
    listed = keys.numbers("attention.indexer.types")
    if listed:
        return bool(at(listed, il))
    if keys.architecture == "glm-dsa" and keys.number("context_length") >= 2**20:
        return il < 2 or (il - 2) % 4 == 0  # GLM-5.2 files that do not list theirs
    return keys.architecture != "dots3note" and keys.architecture != "hy_v4"


def _caching_layers(keys: ModelKeys) -> int:
    """Layers without the draft blocks at the end, which the main model never attends to, unless
    there is nothing else or the architecture's cache takes them all the same.
    """
    all_layers, drafts = keys.number("block_count"), keys.number("nextn_predict_layers")
    is_draft_alone = all_layers == drafts
    return (
        all_layers if is_draft_alone or keys.architecture in _CACHES_DRAFTS else all_layers - drafts
    )


def _layers_with_own_cache(keys: ModelKeys, num_layers: int) -> int:
    """Layers from here on read an earlier layer's cache."""
    if keys.architecture == "gemma3n":
        return 20
    if keys.architecture == "gemma4":
        return num_layers - keys.number("attention.shared_kv_layers")
    return num_layers
