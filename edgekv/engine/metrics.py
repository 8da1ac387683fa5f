"""What the engine has done so far, as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edgekv.core.batch import BatchPlan
from edgekv.core.events import EngineEvent, Sampled
from edgekv.core.frames import Snapshot
from edgekv.core.request import SeqId
from edgekv.core.sequence import Sequence
from edgekv.engine.starts import Start
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
        """Count what of a prompt was there, as far as its request has not had it before."""
        seq, num_prompt = start.seq, len(start.seq.request.prompt)
        reused_end = max(seq.num_had, min(num_prompt, start.acquired.num_reused))
        known_end = max(reused_end, min(num_prompt, start.acquired.num_known))
        self._prompt_reused += reused_end - seq.num_had
        self._prompt_restored += known_end - reused_end

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
            end, num_prompt = piece.start + len(piece.tokens), len(seq.request.prompt)
            first_new = max(piece.start, seq.num_had)
            self._prompt_computed += max(0, min(end, num_prompt) - first_new)
            self._recomputed += max(0, min(end, seq.num_had) - piece.start)
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
