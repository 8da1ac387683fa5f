"""What the engine has done so far, as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edgekv.core.batch import BatchPlan
from edgekv.core.events import EngineEvent, Sampled, Started
from edgekv.core.frames import Snapshot
from edgekv.core.request import SeqId
from edgekv.core.sequence import Sequence
from edgekv.kv.cell_cache import CellCounts


class Metrics:
    """Counters since the model was opened. They only grow."""

    def __init__(self) -> None:
        self._num_steps = 0
        self._prompt_computed = 0
        self._prompt_reused = 0
        self._generated = 0

    def count_step(self, plan: BatchPlan, running: Mapping[SeqId, Sequence]) -> None:
        """Count a decoded plan of `running` sequences."""
        self._num_steps += 1
        for piece in plan.slices:
            prompt_left = len(running[piece.seq_id].request.prompt) - piece.start
            self._prompt_computed += max(0, min(len(piece.tokens), prompt_left))

    def count_events(self, events: Iterable[EngineEvent]) -> None:
        for event in events:
            match event:
                case Started(num_reused=num_reused):
                    self._prompt_reused += num_reused
                case Sampled():
                    self._generated += 1

    def snapshot(
        self, *, num_cells: int, counts: CellCounts, num_running: int, num_waiting: int
    ) -> Snapshot:
        return Snapshot(
            num_cells=num_cells,
            cells_used=counts.used,
            cells_shared=counts.shared,
            cells_kept=counts.kept,
            cells_reserved=counts.reserved,
            num_running=num_running,
            num_waiting=num_waiting,
            num_steps=self._num_steps,
            prompt_tokens_computed=self._prompt_computed,
            prompt_tokens_reused=self._prompt_reused,
            tokens_generated=self._generated,
        )
