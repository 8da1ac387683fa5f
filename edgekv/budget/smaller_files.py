"""Which quantisation of the same model would fit where this file does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from edgekv.budget.sizes import format_size
from edgekv.core.plan import ModelFacts


@dataclass(frozen=True, slots=True)
class Quantisation:
    name: str
    file_type: int
    """`general.file_type` of a file made so (LLAMA_FTYPE)."""
    bits: float
    """A weight, on the average of a whole model."""


KNOWN = (
    Quantisation("F16", 1, 16.0005),
    Quantisation("BF16", 32, 16.0005),
    Quantisation("Q8_0", 7, 8.5008),
    Quantisation("Q6_K", 18, 6.5633),
    Quantisation("Q5_K_M", 17, 5.7036),
    Quantisation("Q5_K_S", 16, 5.5704),
    Quantisation("Q4_1", 3, 5.1177),
    Quantisation("Q4_K_M", 15, 4.8944),
    Quantisation("IQ4_NL", 25, 4.6818),
    Quantisation("Q4_K_S", 14, 4.6672),
    Quantisation("Q4_0", 2, 4.6602),
    Quantisation("IQ4_XS", 30, 4.4597),
    Quantisation("Q3_K_M", 12, 3.9960),
    Quantisation("Q2_K", 10, 3.1593),
)
"""From llama.cpp's table for Llama 3.1 8B, the largest first."""
ADVISED = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q3_K_M", "Q2_K")
"""What most models are offered in. Below that little of a model is left."""


def smaller_file(facts: ModelFacts, weight_lines_bytes: int, room_bytes: int) -> str | None:
    """The largest quantisation whose weights take at most `room_bytes`, with the size of its file;
    None if none would, or if nobody can tell how this file is quantised.

    `weight_lines_bytes` is what the weights of this one take, copies included.
    """
    now = next((q for q in KNOWN if str(q.file_type) == facts.metadata.get(_FILE_TYPE)), None)
    if now is None or not weight_lines_bytes:
        return None
    for quantisation in _below(now):
        part = quantisation.bits / now.bits
        if weight_lines_bytes * part <= room_bytes:
            return f"{quantisation.name} (about {format_size(int(facts.file_bytes * part))})"
    return None


_FILE_TYPE = "general.file_type"


def _below(now: Quantisation) -> Iterator[Quantisation]:
    return (q for q in KNOWN if q.name in ADVISED and q.bits < now.bits)
