"""What an engine does without while memory is short."""

from __future__ import annotations

import msgspec


class Restraint(msgspec.Struct, frozen=True):
    keeps: bool = True
    """Finished conversations may stay in the pool and in host memory. If not they are on disk
    alone, and suspended ones too."""
    slots: int | None = None
    """Requests that run at once, if that is fewer than the slots there are. Those that run when
    it gets fewer go on to their end."""
