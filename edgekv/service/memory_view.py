"""How short memory is, as values that /plan and /metrics show."""

from __future__ import annotations

import msgspec

from edgekv.budget.pressure import Room


class MemoryView(msgspec.Struct, frozen=True):
    level: str = "calm"
    """calm, tight, scarce or critical."""
    rooms: tuple[Room, ...] = ()
    """The host's first."""
    stall_percent: float = 0.0
    """Of the last ten seconds, how much everybody spent waiting for memory."""
    slots_at_once: int = 0
    """Requests that run at once now."""
    cells: int = 0
    cells_at_first: int = 0
    """What the pool had, and has again when there is memory for it."""
    counts: dict[str, int] = {}
    """How often each step was taken since the start."""
    steps: tuple[str, ...] = ()
    """The last ones, in words, the oldest first."""
