"""The element types a KV cache may have, and what they take.

Source: the block layouts of ggml's `ggml-common.h`. The list is the one that llama.cpp's own
tools offer for `--cache-type-k` and `--cache-type-v`, and two that only its library opens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class KVType:
    """Elements are stored in blocks of `block_length`, each of `block_bytes`."""

    block_length: int
    block_bytes: int

    @property
    def is_quantised(self) -> bool:
        return self.block_length > 1

    def row_bytes(self, width: int) -> int:
        """Bytes of `width` elements. Raises `ValueError` if they are not whole blocks."""
        if width % self.block_length:
            raise ValueError(f"{width} elements are not whole blocks of {self.block_length}")
        return width // self.block_length * self.block_bytes


KV_TYPES = {
    "f32": KVType(1, 4),
    "f16": KVType(1, 2),
    "bf16": KVType(1, 2),
    "q8_0": KVType(32, 2 + 32),  # one f16 scale, then 32 x 8 bits
    "q5_1": KVType(32, 2 + 2 + 4 + 16),  # scale, minimum, 32 fifth bits, 32 x 4 bits
    "q5_0": KVType(32, 2 + 4 + 16),
    "q4_1": KVType(32, 2 + 2 + 16),
    "q4_0": KVType(32, 2 + 16),
    "iq4_nl": KVType(32, 2 + 16),
    "mxfp4": KVType(32, 1 + 16),  # one exponent, then 32 x 4 bits
    "q2_0": KVType(64, 2 + 16),  # 64 x 2 bits
}

AUTO = "auto"

Pair: TypeAlias = tuple[str, str]
"""The types of keys and of values."""


def pair_name(pair: Pair) -> str:
    """As a user writes it: `q8_0`, or `q8_0/q4_0`."""
    key_type, value_type = pair
    return key_type if key_type == value_type else f"{key_type}/{value_type}"


def parse_kv_types(text: str) -> tuple[str | None, str | None]:
    """`TYPE` for keys and values alike, or `KTYPE/VTYPE`; `auto` becomes None.

    Raises `ValueError`, whose text is a sentence for the user.
    """
    key_type, slash, value_type = text.lower().partition("/")
    pair = (key_type, value_type if slash else key_type)
    for name in pair:
        if name not in {AUTO, *KV_TYPES}:
            raise ValueError(
                f"'{name}' is not a KV type; take '{AUTO}' or one of {', '.join(KV_TYPES)}."
            )
    return (_unless_auto(pair[0]), _unless_auto(pair[1]))


def _unless_auto(name: str) -> str | None:
    return None if name == AUTO else name
