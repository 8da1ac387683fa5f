"""What the user asked for. None is `auto`: the plan decides."""

from __future__ import annotations

from dataclasses import dataclass

from edgekv.budget.sizes import Reserve
from edgekv.core.plan import Adapter


@dataclass(frozen=True, slots=True)
class Wish:
    """A value given here is kept or refused, never changed. Sizes are bytes.

    The one exception is `threads`: no more are started than processors are usable, and the
    plan says so.
    """

    context_length: int | None = None
    slots: int | None = None
    cells: int | None = None
    kv_type_k: str | None = None
    kv_type_v: str | None = None
    flash_attention: bool | None = None
    gpu_layers: int | None = None
    memory_bytes: int | None = None
    """The whole budget, instead of what is available now less the reserve. More than is
    available is as much as is available, and the plan says so."""
    host_cache_bytes: int | None = None
    reserve: Reserve | None = None
    threads: int | None = None
    workers: tuple[str, ...] = ()
    """Other machines that may hold layers, as HOST:PORT; those named first are filled first."""
    use_mmap: bool = True
    adapters: tuple[Adapter, ...] = ()
    grammars: bool = False
    """Answers may be held to schemas; only a server's are."""
    embeddings: bool | None = False
    """Room to embed texts. `auto` makes it where it costs no context that people need, no slot
    and no precision; only a server embeds."""
