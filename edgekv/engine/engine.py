"""The loop: admit, plan, decode, sample, commit."""

from __future__ import annotations

from edgekv.core.batch import BatchPlan, DecodeStatus
from edgekv.core.events import EngineEvent, ErrorInfo, Failed, Finished, FinishReason, Started
from edgekv.core.frames import Snapshot
from edgekv.core.ports import Backend
from edgekv.core.request import Request, RequestId, SeqId, Token
from edgekv.core.sequence import Sequence
from edgekv.engine.metrics import Metrics
from edgekv.engine.scheduler import Scheduler
from edgekv.errors import EdgeKVError, InvalidValue, PromptTooLong
from edgekv.kv.cell_cache import CellCache
from edgekv.kv.prefix_cache import PrefixCache
from edgekv.kv.unshared_cache import UnsharedCache

FAILURES = {
    DecodeStatus.FAILED: "llama.cpp could not compute this step, so the answer ends here; "
    "send the request again.",
    # Admission reserved the cells, so this is a bug; it ends answers, not the process.
    DecodeStatus.NO_SPACE: "There was no room for tokens that had been promised room, which is "
    "a bug in EdgeKV; send the request again, and please report it.",
}


class Engine:
    """Answers many requests with one backend. Every submitted request ends with exactly one
    `Finished` or `Failed`, from `step`, `cancel` or `stop`.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        slots: int,
        context_length: int,
        batch_tokens: int,
        end_tokens: frozenset[Token],
        sharing: bool = True,
    ) -> None:
        """At most `slots` requests run at once; a step decodes at most `batch_tokens` tokens.

        `sharing` False computes every prompt anew. Raises `ValueError` for values that could
        not keep every running answer going.
        """
        if not 1 <= slots <= backend.num_seqs:
            raise ValueError(f"{slots} slots need 1 to {backend.num_seqs} sequence ids")
        if batch_tokens < slots:
            raise ValueError(
                f"{slots} slots need at least as many batch tokens, not {batch_tokens}"
            )
        self._backend = backend
        self._context_length = min(context_length, backend.num_cells)
        cache_type = PrefixCache if sharing else UnsharedCache
        self._cache: CellCache = cache_type(
            backend, num_cells=backend.num_cells, num_seqs=backend.num_seqs
        )
        self._scheduler = Scheduler(
            self._cache, slots=slots, batch_tokens=batch_tokens, end_tokens=end_tokens
        )
        self._metrics = Metrics()
        self._attached: dict[RequestId, SeqId] = {}

    @property
    def is_idle(self) -> bool:
        return not self._scheduler.running and not self._scheduler.num_waiting

    def submit(self, request: Request) -> None:
        """Queue a request.

        Raises `PromptTooLong` or `InvalidValue` if it could never be admitted, and `ValueError`
        if its id is in use.
        """
        length, limit = len(request.prompt), self._context_length
        if length >= limit:
            raise PromptTooLong(length, limit)
        if length + request.max_tokens > limit:
            raise InvalidValue(
                "max_tokens",
                f"max_tokens is {request.max_tokens}, but after a prompt of {length} tokens one "
                f"conversation has room for {limit - length}; ask for fewer or start with a "
                "larger --ctx.",
            )
        self._scheduler.submit(request)

    def cancel(self, request_id: RequestId) -> list[EngineEvent]:
        """End a request now, because nobody wants it. Unknown ids, ended ones too, are no error."""
        return self._report(self._scheduler.end(request_id, FinishReason.CANCELLED))

    def stop(self, request_id: RequestId) -> list[EngineEvent]:
        """End a request now, because its answer is complete. Otherwise as `cancel`."""
        return self._report(self._scheduler.end(request_id, FinishReason.STOP))

    def step(self) -> list[EngineEvent]:
        """Do one decode's worth of work for all requests together."""
        events: list[EngineEvent] = [self._begin(seq) for seq in self._scheduler.admit()]
        plan = self._scheduler.plan()
        if plan.slices:
            events += self._execute(plan)
        return self._report(events)

    def snapshot(self) -> Snapshot:
        """Everything but `resident_bytes`, which the engine cannot know."""
        return self._metrics.snapshot(
            num_cells=self._backend.num_cells,
            counts=self._cache.counts(),
            num_running=len(self._scheduler.running),
            num_waiting=self._scheduler.num_waiting,
        )

    def check_integrity(self) -> None:
        """Raises `AssertionError` if the books do not agree with each other."""
        self._scheduler.check_integrity()
        assert sorted(self._attached.values()) == sorted(self._scheduler.running)

    def _begin(self, seq: Sequence) -> Started:
        request = seq.request
        self._backend.attach(seq.seq_id, request.sampling, request.known)
        self._attached[request.id] = seq.seq_id
        return Started(request.id, len(request.prompt), seq.num_computed)

    def _execute(self, plan: BatchPlan) -> list[EngineEvent]:
        status = self._backend.decode(plan)
        if status is not DecodeStatus.DONE:
            return self._scheduler.fail(plan, ErrorInfo(EdgeKVError.code, FAILURES[status]))
        self._metrics.count_step(plan, self._scheduler.running)
        sampled = {p.seq_id: self._backend.sample(p.seq_id) for p in plan.slices if p.wants_logits}
        return self._scheduler.commit(plan, sampled)

    def _report(self, events: list[EngineEvent]) -> list[EngineEvent]:
        """The one way out for events: whatever ended a request, its sampler goes."""
        for event in events:
            if isinstance(event, Finished | Failed) and event.request_id in self._attached:
                self._backend.detach(self._attached.pop(event.request_id))
        self._metrics.count_events(events)
        return events
