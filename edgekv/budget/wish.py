"""What the user asked for. None is `auto`: the plan decides."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wish:
    """A value given here is kept or refused, never changed. Sizes are bytes."""

    context_length: int | None = None
    slots: int | None = None
    cells: int | None = None
    kv_type_k: str | None = None
    kv_type_v: str | None = None
    gpu_layers: int | None = None
    memory_bytes: int | None = None
    """The whole budget, instead of what is available now less the reserve."""
    host_cache_bytes: int | None = None
    reserve_bytes: int | None = None
    threads: int | None = None
    use_mmap: bool = True
