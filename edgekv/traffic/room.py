"""What a simulation has to answer with: the room of a plan."""

from __future__ import annotations

from dataclasses import dataclass

from edgekv.core.plan import MemoryPlan


@dataclass(frozen=True, slots=True)
class Room:
    """Cells, tokens and requests."""

    slots: int
    kept: int
    cells: int
    context_length: int
    batch: int
    host_cells: int = 0
    """Cells that there is room for copies of, in host memory or on disk."""
    max_waiting: int | None = None
    max_gap_seconds: float = 0.25
    shares: bool = True


def room_of(plan: MemoryPlan, disk_bytes: int = 0) -> Room:
    """The room of a plan that is conducted as usual, with so many bytes of copies on disk."""
    choice = plan.choice
    return Room(
        slots=choice.slots,
        kept=choice.kept,
        cells=choice.cells,
        context_length=choice.context_length,
        batch=choice.batch,
        host_cells=(choice.host_cache_bytes + disk_bytes) // bytes_per_cell(plan),
        shares=choice.kept > 0,
    )


def bytes_per_cell(plan: MemoryPlan, kv_type: str | None = None) -> int:
    """What a cell takes as planned, or with keys and values of that type; 1 at least."""
    by_type, choice = plan.model.kv_bytes_per_cell, plan.choice
    types = (kv_type, kv_type) if kv_type else (choice.kv_type_k, choice.kv_type_v)
    return max(1, sum(by_type.get(name, 0) for name in types) // 2)
