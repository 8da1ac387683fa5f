"""What the engine has done so far, as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edgekv.core.batch import BatchPlan
from edgekv.core.events import EngineEvent, Sampled
from edgekv.core.frames import Snapshot
from edgekv.core.request import SeqId
from edgekv.core.sequence import Sequence
from edgekv.engine.scheduler import Start
from edgekv.kv.cell_cache import CellCounts, StoreCounts


class Metrics:
    """Counters since the model was opened. They only grow."""

    def __init__(self) -> None:
        self._num_steps = 0
        self._prompt_computed = 0
        self._prompt_reused = 0
        self._prompt_restored = 0
        self._generated = 0
        self._num_suspensions = 0
        self._recomputed = 0
        self.last_step = (0, 0)
        """Prompt tokens of the last decoded plan, and answers that went on in it."""

    def count_start(self, start: Start) -> None:
        if start.is_first:
            num_prompt = len(start.seq.request.prompt)
            reused = min(num_prompt, start.acquired.num_reused)
            self._prompt_reused += reused
            self._prompt_restored += min(num_prompt, start.acquired.num_known) - reused
        self._recomputed += start.num_recomputed

    def count_suspension(self) -> None:
        self._num_suspensions += 1

    def count_step(self, plan: BatchPlan, running: Mapping[SeqId, Sequence]) -> None:
        """Count a plan of `running` sequences that was decoded but not yet committed."""
        self._num_steps += 1
        num_loading = num_answering = 0
        for piece in plan.slices:
            seq = running[piece.seq_id]
            if seq.num_pending > 1:
                num_loading += len(piece.tokens)
            else:
                num_answering += 1
            if seq.resumed_length is None:
                prompt_left = len(seq.request.prompt) - piece.start
                self._prompt_computed += max(0, min(len(piece.tokens), prompt_left))
        self.last_step = num_loading, num_answering

    def count_events(self, events: Iterable[EngineEvent]) -> None:
        self._generated += sum(isinstance(event, Sampled) for event in events)

    def snapshot(
        self,
        *,
        num_cells: int,
        counts: CellCounts,
        store: StoreCounts,
        num_running: int,
        num_waiting: int,
        num_suspended: int,
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
            prompt_tokens_restored=self._prompt_restored,
            tokens_generated=self._generated,
            num_suspended=num_suspended,
            num_suspensions=self._num_suspensions,
            tokens_recomputed=self._recomputed,
            store_host_bytes=store.host_bytes,
            store_disk_bytes=store.disk_bytes,
            swap_bytes_out=store.bytes_out,
            swap_bytes_in=store.bytes_in,
        )
