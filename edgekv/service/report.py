"""Everything that the engine screen shows of one model, at one moment."""

from __future__ import annotations

import msgspec

from edgekv.core.frames import Snapshot
from edgekv.core.look import EngineLook
from edgekv.core.plan import Allocation, MemoryPlan
from edgekv.service.memory_view import MemoryView
from edgekv.traffic.load import Forecast


class Report(msgspec.Struct, frozen=True):
    """`plan` and `allocation` are None until the model has been planned and opened."""

    snapshot: Snapshot = Snapshot()
    look: EngineLook = EngineLook()
    plan: MemoryPlan | None = None
    allocation: Allocation | None = None
    first_token_seconds: tuple[float, ...] = ()
    """Of the last answers, the oldest first: from asking to the first text."""
    gap_seconds: tuple[float, ...] = ()
    """Of the last steps, the oldest first: the longest time between two pieces of an answer."""
    num_restarts: int = 0
    memory: MemoryView = MemoryView()
    """How short memory is, and what was given up for it."""
    load: Forecast = Forecast()
    """Where the load of a server leads."""
