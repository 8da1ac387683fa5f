"""How far something is that is done in stages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    num_done: int
    num_stages: int
    words: str
    """What is done now; nothing when all is over."""
