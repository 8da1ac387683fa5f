"""What an engine gives up and gets back while it works, as values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from edgekv.core.plan import CELL_PADDING, Allocation, Choice
from edgekv.core.request import Request


@dataclass(frozen=True, slots=True)
class Freed:
    """Cells that were kept in the pool, and bytes of copies in host memory, that are gone."""

    num_cells: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Resizing:
    choice: Choice
    """What is open now."""
    allocation: Allocation | None = None
    """None if it was open already."""
    num_carried: int = 0
    """Requests that go on in the new pool."""


def with_room_for(requests: Iterable[Request], choice: Choice) -> Choice:
    """The same with room for the longest answer that one of the requests was promised."""
    promised = max((len(r.prompt) + r.max_tokens for r in requests), default=0)
    cells = -(-promised // CELL_PADDING) * CELL_PADDING
    return replace(
        choice,
        context_length=max(choice.context_length, promised),
        cells=max(choice.cells, cells),
    )
