"""One step of work, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from edgekv.core.request import SeqId, Token


@dataclass(frozen=True, slots=True)
class BatchSlice:
    """`tokens` of one sequence, at positions `start`, `start + 1`, …"""

    seq_id: SeqId
    start: int
    tokens: tuple[Token, ...]
    wants_logits: bool
    """Only the slice that reaches the end of its sequence is sampled from."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    slices: tuple[BatchSlice, ...]

    @property
    def num_tokens(self) -> int:
        return sum(len(s.tokens) for s in self.slices)


class DecodeStatus(Enum):
    DONE = auto()
    NO_SPACE = auto()
    """Nothing was written; free cells or shrink the batch, then retry."""
    FAILED = auto()
    """The library gave up; part of the plan may have been written."""
