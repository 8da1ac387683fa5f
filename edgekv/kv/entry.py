"""What the store knows of one copy of cells."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgekv.core.request import SeqId
from edgekv.kv.claims import Claim, Rank, highest
from edgekv.kv.disk import DiskCopy


@dataclass(slots=True, eq=False)
class Entry:
    """In host memory, on disk, or both."""

    number: SeqId
    """Stands where the tree of a pool has a sequence id."""
    start: int
    end: int
    num_bytes: int
    blob: bytes | None
    copy: DiskCopy | None
    num_uses: int = 0
    value: float = 0.0
    """As of its last use. The lowest is dropped first."""
    claims: set[Claim] = field(default_factory=set)

    @property
    def rank(self) -> Rank:
        return highest(self.claims)


@dataclass(frozen=True, slots=True)
class Stored:
    """An entry, and up to which of the tokens that were looked for it is of use."""

    entry: Entry
    end: int
