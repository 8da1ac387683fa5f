"""What of a model's weights llama.cpp lays out anew for the processor, told without opening it.

Such a tensor is a copy on top of the mapped file. Source of the rules: ggml's `repack.cpp`
(`ggml_repack_get_optimal_repack_type`, `supports_op`) and `amx.cpp` and `mmq.cpp`
(`get_row_size`), as of the release that is checked.
"""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from edgekv.models.tensor_types import Tensor

_WORDS, _OUTPUT = "token_embd.weight", "output.weight"
_LOOKED_UP = {_WORDS, "per_layer_token_embd.weight", "position_embd.weight", "token_types.weight"}
"""Rows of these are looked up, and no matrix is multiplied by them."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """With all of `features` the library lays out tensors whose rows divide by `rows`."""

    features: frozenset[str]
    rows: int

    def copy_bytes(self, tensor: Tensor, features: Collection[str]) -> int:
        """0 where the rule does not hold."""
        holds = self.features <= set(features) and tensor.lengths[1] % self.rows == 0
        return (tensor.num_bytes or 0) if holds else 0


@dataclass(frozen=True, slots=True)
class _TileRule:
    """Intel's tiles take single matrices whose rows have whole blocks of `block` elements, and add
    `block_bytes` to each block. They come before every other layout.
    """

    block: int
    block_bytes: int = 0

    def copy_bytes(self, tensor: Tensor, features: Collection[str]) -> int:
        """0 where the rule does not hold."""
        columns, rows, *stacked = tensor.lengths
        if "AMX_INT8" not in features or stacked or columns % self.block or rows % _TILE_ROWS:
            return 0
        return (tensor.num_bytes or 0) + rows * columns // self.block * self.block_bytes


def _rules(*rules: tuple[str, int]) -> tuple[_Rule, ...]:
    return tuple(_Rule(frozenset(features.split()), rows) for features, rows in rules)


_TILE_ROWS = 32
_TILES = {
    1: _TileRule(16),  # F16
    2: _TileRule(32),  # Q4_0
    3: _TileRule(32),  # Q4_1
    8: _TileRule(32, 4),  # Q8_0
    12: _TileRule(256, 4),  # Q4_K
    13: _TileRule(256, 4),  # Q5_K
    14: _TileRule(256),  # Q6_K
    23: _TileRule(256, 2),  # IQ4_XS
}
_AVX2, _DOTPROD = ("AVX2", 8), ("NEON DOTPROD", 4)
_RULES = {
    2: _rules(_AVX2, _DOTPROD, ("NEON MATMUL_INT8", 4), ("VXE", 4)),  # Q4_0
    8: _rules(_DOTPROD, ("NEON MATMUL_INT8", 4)),  # Q8_0
    10: _rules(("AVX512", 8)),  # Q2_K
    12: _rules(_AVX2, ("NEON DOTPROD", 8), ("NEON MATMUL_INT8", 8)),  # Q4_K
    13: _rules(("NEON DOTPROD", 8), ("NEON MATMUL_INT8", 8)),  # Q5_K
    14: _rules(("NEON DOTPROD", 8), ("NEON MATMUL_INT8", 8)),  # Q6_K
    20: _rules(_AVX2, _DOTPROD),  # IQ4_NL
    39: _rules(_AVX2, _DOTPROD),  # MXFP4
    41: _rules(_DOTPROD, ("NEON MATMUL_INT8", 4)),  # Q1_0
}
"""ggml's number for a type → when its tensors are laid out anew."""


def usual_features() -> frozenset[str]:
    """Those of a library for a processor like this one, where none can be asked."""
    is_arm = platform.machine().lower() in {"aarch64", "arm64"}
    return frozenset({"REPACK", *(("NEON", "DOTPROD", "MATMUL_INT8") if is_arm else ("AVX2",))})


def repacked_bytes(tensors: Iterable[Tensor], features: Collection[str]) -> int:
    """Bytes of all copies, if every layer stays on the processor.

    `features` is what the library was built with, in ggml's words.
    """
    return sum(_copy_bytes(one, features) for one in _multiplied(tensors))


def _multiplied(tensors: Iterable[Tensor]) -> Iterator[Tensor]:
    """Tensors that are matrices, or stacks of them; the words too if they are the output as well:
    then the library has them twice.
    """
    known = {one.name: one for one in tensors}
    for name, one in known.items():
        is_output = name == _WORDS and _OUTPUT not in known
        if len(one.lengths) > 1 and (name not in _LOOKED_UP or is_output):
            yield one


def _copy_bytes(tensor: Tensor, features: Collection[str]) -> int:
    tiles = _TILES.get(tensor.kind)
    if tiles and (copied := tiles.copy_bytes(tensor, features)):
        return copied
    rules = _RULES.get(tensor.kind, ()) if "REPACK" in features else ()
    return max((rule.copy_bytes(tensor, features) for rule in rules), default=0)
