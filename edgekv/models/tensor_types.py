"""What the elements of a tensor take in a GGUF file, by ggml's number for their type.

Source: the block layouts of ggml's `ggml-common.h`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

_BLOCKS = {
    0: (1, 4),  # F32
    1: (1, 2),  # F16
    2: (32, 18),  # Q4_0
    3: (32, 20),  # Q4_1
    6: (32, 22),  # Q5_0
    7: (32, 24),  # Q5_1
    8: (32, 34),  # Q8_0
    9: (32, 36),  # Q8_1
    10: (256, 84),  # Q2_K
    11: (256, 110),  # Q3_K
    12: (256, 144),  # Q4_K
    13: (256, 176),  # Q5_K
    14: (256, 210),  # Q6_K
    15: (256, 292),  # Q8_K
    16: (256, 66),  # IQ2_XXS
    17: (256, 74),  # IQ2_XS
    18: (256, 98),  # IQ3_XXS
    19: (256, 50),  # IQ1_S
    20: (32, 18),  # IQ4_NL
    21: (256, 110),  # IQ3_S
    22: (256, 82),  # IQ2_S
    23: (256, 136),  # IQ4_XS
    24: (1, 1),  # I8
    25: (1, 2),  # I16
    26: (1, 4),  # I32
    27: (1, 8),  # I64
    28: (1, 8),  # F64
    29: (256, 56),  # IQ1_M
    30: (1, 2),  # BF16
    34: (256, 54),  # TQ1_0
    35: (256, 66),  # TQ2_0
    39: (32, 17),  # MXFP4
    40: (64, 36),  # NVFP4
    41: (128, 18),  # Q1_0
    42: (64, 18),  # Q2_0
}
"""Type → (elements, bytes) of one block."""


def tensor_bytes(kind: int, lengths: Sequence[int]) -> int | None:
    """Bytes of a tensor as stored; None for a type that is newer than this table."""
    if kind not in _BLOCKS:
        return None
    elements, size = _BLOCKS[kind]
    return prod(lengths) // elements * size


@dataclass(frozen=True, slots=True)
class Tensor:
    """A row of a file's table of tensors."""

    name: str
    kind: int
    """ggml's number for its type."""
    lengths: tuple[int, ...]
    """As ggml counts: the elements of a row first."""
    offset: int
    """Where its data starts, from the first tensor's on."""

    @property
    def num_bytes(self) -> int | None:
        """None for a type that nobody here knows."""
        return tensor_bytes(self.kind, self.lengths)
