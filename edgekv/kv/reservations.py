"""How many more cells each running sequence will probably need."""

from __future__ import annotations

from edgekv.core.request import SeqId


class Reservations:
    """A sequence that outgrows what was expected of it just has no more reserved."""

    def __init__(self) -> None:
        self._cells: dict[SeqId, int] = {}
        self.total = 0

    def seq_ids(self) -> list[SeqId]:
        return sorted(self._cells)

    def of(self, seq_id: SeqId) -> int:
        return self._cells[seq_id]

    def set(self, seq_id: SeqId, num_cells: int) -> None:
        self.total += num_cells - self._cells.get(seq_id, 0)
        self._cells[seq_id] = num_cells

    def use(self, seq_id: SeqId, num_cells: int) -> None:
        """So many of the expected cells are there now."""
        self.set(seq_id, max(0, self._cells[seq_id] - num_cells))

    def drop(self, seq_id: SeqId) -> None:
        self.total -= self._cells.pop(seq_id)

    def check_integrity(self) -> None:
        assert self.total == sum(self._cells.values())
        assert all(num_cells >= 0 for num_cells in self._cells.values())
