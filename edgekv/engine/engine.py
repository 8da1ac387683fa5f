"""The loop: admit, plan, decode, sample, commit."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from msgspec.structs import replace

from edgekv.core.batch import BatchPlan, DecodeStatus
from edgekv.core.events import (
    EngineEvent,
    ErrorInfo,
    Failed,
    Finished,
    FinishReason,
    Sampled,
    Started,
)
from edgekv.core.frames import Snapshot
from edgekv.core.inspection import CacheView, PromptStart
from edgekv.core.look import EngineLook
from edgekv.core.plan import Choice
from edgekv.core.ports import Backend
from edgekv.core.request import Request, RequestId, SeqId, Token
from edgekv.core.restraint import Restraint
from edgekv.core.sequence import Sequence
from edgekv.engine.failures import failure
from edgekv.engine.looking import look_at
from edgekv.engine.metrics import Metrics
from edgekv.engine.pacing import Pace
from edgekv.engine.resizing import Freed
from edgekv.engine.scheduler import Scheduler
from edgekv.engine.starts import Start
from edgekv.errors import InvalidValue, Overloaded, PromptTooLong, RequestError
from edgekv.kv.cell_cache import CellCache
from edgekv.kv.prefix_cache import PrefixCache
from edgekv.kv.store import Store
from edgekv.kv.unshared_cache import UnsharedCache

NUM_STARTS = 32
"""So many starts are remembered, to explain what was computed."""


@dataclass(frozen=True, slots=True)
class Limits:
    slots: int
    """Requests that run at once."""
    context_length: int
    """Tokens one conversation may hold."""
    batch_tokens: int
    """Tokens that a step decodes."""
    max_waiting: int | None = None
    """Requests that may wait beyond those that a free slot will take. None: any number."""
    max_gap_seconds: float = 0.0
    """How long a step may take while answers are under way, as far as prompts decide; 0: as long
    as a whole batch takes."""


class Engine:
    """Answers many requests with one backend. Every submitted request ends with exactly one
    `Finished` or `Failed`, from `step`, `cancel` or `stop`.
    """

    def __init__(
        self,
        backend: Backend,
        limits: Limits,
        *,
        end_tokens: frozenset[Token],
        sharing: bool = True,
        store: Store | None = None,
    ) -> None:
        """`sharing` is False for models whose cells cannot be shared or cut.

        Raises `ValueError` for limits that could not keep every running answer going.
        """
        slots, batch_tokens = limits.slots, limits.batch_tokens
        if not 1 <= slots <= backend.num_seqs:
            raise ValueError(f"{slots} slots need 1 to {backend.num_seqs} sequence ids")
        if batch_tokens < slots:
            raise ValueError(
                f"{slots} slots need at least as many batch tokens, not {batch_tokens}"
            )
        self._backend = backend
        self.context_length = min(limits.context_length, backend.num_cells)
        """Tokens one conversation may hold."""
        self._max_waiting = limits.max_waiting
        cache_type = PrefixCache if sharing else UnsharedCache
        self._cache: CellCache = cache_type(
            backend, num_cells=backend.num_cells, num_seqs=backend.num_seqs, store=store
        )
        self.pin = self._cache.pin
        self._pace = Pace(limits.max_gap_seconds)
        self._scheduler = Scheduler(
            self._cache,
            slots=slots,
            batch_tokens=batch_tokens,
            end_tokens=end_tokens,
            pace=self._pace,
        )
        self._metrics = Metrics()
        self._slots, self._restraint = slots, Restraint()
        self._host_bytes = store.host_limit_bytes if store else 0
        self._attached: dict[RequestId, SeqId] = {}
        self.starts: deque[PromptStart] = deque(maxlen=NUM_STARTS)
        """What the last requests found when they started, the oldest first."""

    @property
    def is_idle(self) -> bool:
        return not self._scheduler.running and not self._scheduler.num_waiting

    def submit(self, request: Request) -> None:
        """Queue a request.

        Raises `PromptTooLong` or `InvalidValue` if it could never be admitted, `Overloaded` if too
        many wait, and `ValueError` if its id is in use.
        """
        length, limit = len(request.prompt), self.context_length
        if length >= limit:
            raise PromptTooLong(length, limit)
        if length + request.max_tokens > limit:
            raise InvalidValue(
                "max_tokens",
                f"max_tokens is {request.max_tokens}, but after a prompt of {length} tokens one "
                f"conversation has room for {limit - length}; ask for fewer or start with a "
                "larger --ctx.",
            )
        if not request.generated:
            # One that was under way in another engine has been accepted long ago.
            self._check_queue()
        self._scheduler.submit(request)

    def cancel(self, request_id: RequestId) -> list[EngineEvent]:
        """End a request now, because nobody wants it. Unknown ids, ended ones too, are no error."""
        return self._report(self._scheduler.end(request_id, FinishReason.CANCELLED))

    def stop(self, request_id: RequestId) -> list[EngineEvent]:
        """End a request now, because its answer is complete. Otherwise as `cancel`."""
        return self._report(self._scheduler.end(request_id, FinishReason.STOP))

    def step(self) -> list[EngineEvent]:
        """Do one decode's worth of work for all requests together."""
        events = self._admit()
        plan = self._plan()
        if plan.slices:
            events += self._execute(plan)
        return self._report(events)

    def took(self, seconds: float) -> None:
        """How long the last `step` took; the next one divides long prompts accordingly."""
        self._pace.learn(*self._metrics.last_step, seconds)

    def view(self) -> CacheView:
        """For people: who holds which cells now."""
        return self._cache.view()

    def look(self) -> EngineLook:
        """For people: what runs and waits now."""
        return look_at(self._scheduler, self._cache.held())

    def restrain(self, restraint: Restraint) -> Freed:
        """Do without what memory is too short for, until told otherwise."""
        before = self.snapshot()
        self._restraint = restraint
        self._scheduler.slots = min(self._slots, restraint.slots or self._slots)
        host_bytes = self._host_bytes if restraint.keeps else 0
        self._cache.restrain(keeps=restraint.keeps, host_bytes=host_bytes)
        after = self.snapshot()
        return Freed(
            before.cells_kept - after.cells_kept, before.store_host_bytes - after.store_host_bytes
        )

    def requests(self) -> list[Request]:
        """Those that run, and those that wait."""
        running = [seq.request for seq in self._scheduler.running.values()]
        return running + [entry.request for entry in self._scheduler.waiting()]

    def leave_pool(self, choice: Choice) -> int:
        """Suspend every running request and empty the pool, so that the backend may change to
        `choice`; returns how many were suspended. `enter_pool` comes next.
        """
        running = list(self._scheduler.running.values())
        for seq in running:
            self._scheduler.suspend(seq)
            self._note_suspended(seq)
        self._cache.resize(choice.cells, choice.num_seqs)
        return len(running)

    def enter_pool(self, choice: Choice) -> None:
        """Go on in a pool of another size; those suspended start again with the next step."""
        assert (self._backend.num_cells, self._backend.num_seqs) == (choice.cells, choice.num_seqs)
        self.context_length, self._slots = choice.context_length, choice.slots
        self._host_bytes = choice.host_cache_bytes
        self._scheduler.resize(choice.slots, choice.batch)
        self.restrain(self._restraint)

    def rest(self) -> bool:
        """While idle, do one piece of what can wait; False if there is nothing left to do."""
        return self._cache.rest()

    def snapshot(self) -> Snapshot:
        """Everything but `resident_bytes`, which the engine cannot know."""
        return self._metrics.snapshot(
            num_cells=self._backend.num_cells,
            counts=self._cache.counts(),
            store=self._cache.store_counts(),
            num_running=len(self._scheduler.running),
            num_waiting=self._scheduler.num_waiting,
            num_suspended=self._scheduler.num_suspended,
        )

    def check_integrity(self) -> None:
        """Raises `AssertionError` if the books do not agree with each other."""
        self._scheduler.check_integrity()
        assert sorted(self._attached.values()) == sorted(self._scheduler.running)
        assert len(self._scheduler.running) <= self._slots

    def _check_queue(self) -> None:
        limit, num_new = self._max_waiting, self._scheduler.num_new
        if limit is not None and num_new >= limit + self._scheduler.num_free_slots:
            raise Overloaded(num_new)

    def _admit(self) -> list[EngineEvent]:
        """Start who can start, at the cost of those who matter less."""
        events: list[EngineEvent] = []
        while True:
            events += [event for start in self._scheduler.admit() for event in self._begin(start)]
            suspended = self._scheduler.give_way()
            if not suspended:
                return events
            for seq in suspended:
                self._note_suspended(seq)

    def _begin(self, start: Start) -> list[EngineEvent]:
        """The caller hears of the first start only: after a suspension the answer just goes on."""
        seq, request, found = start.seq, start.seq.request, start.found
        generated = seq.tokens[found.num_prompt :]
        self._backend.attach(seq.seq_id, request.sampling, request.prompt, generated)
        self._attached[request.id] = seq.seq_id
        self._metrics.count_start(start)
        if not start.is_first:
            return []
        self.starts.append(found)
        num_known = min(found.num_prompt, start.acquired.num_known)
        return [Started(request.id, found.num_prompt, num_known)]

    def _plan(self) -> BatchPlan:
        """The next step, and room for it."""
        plan = self._scheduler.plan()
        while (suspended := self._scheduler.suspend_for(plan)) is not None:
            self._note_suspended(suspended)
            plan = self._scheduler.plan()
        self._scheduler.make_room(plan)
        return plan

    def _note_suspended(self, seq: Sequence) -> None:
        self._detach(seq.request.id)
        self._metrics.count_suspension()

    def _detach(self, request_id: RequestId) -> None:
        self._backend.detach(self._attached.pop(request_id))

    def _execute(self, plan: BatchPlan) -> list[EngineEvent]:
        status = self._backend.decode(plan)
        if status is not DecodeStatus.DONE:
            return self._scheduler.fail(plan, failure(status))
        self._metrics.count_step(plan, self._scheduler.running)
        sampled, events = self._sample(plan)
        going_on = BatchPlan(tuple(p for p in plan.slices if p.seq_id in self._scheduler.running))
        complete = {seq_id for seq_id in sampled if self._backend.is_complete(seq_id)}
        committed = self._scheduler.commit(going_on, sampled, complete)
        return events + list(map(self._with_logprob, committed))

    def _with_logprob(self, event: EngineEvent) -> EngineEvent:
        if not isinstance(event, Sampled):
            return event
        logprob = self._backend.logprob(self._attached[event.request_id])
        return event if logprob is None else replace(event, logprob=logprob)

    def _sample(self, plan: BatchPlan) -> tuple[dict[SeqId, Token], list[EngineEvent]]:
        """The next token of each answer, and the ends of those whose grammar is at a loss."""
        sampled: dict[SeqId, Token] = {}
        events: list[EngineEvent] = []
        for piece in plan.slices:
            if not piece.wants_logits:
                continue
            try:
                sampled[piece.seq_id] = self._backend.sample(piece.seq_id)
            except RequestError as error:
                events += self._scheduler.fail(BatchPlan((piece,)), ErrorInfo.of(error))
        return sampled, events

    def _report(self, events: list[EngineEvent]) -> list[EngineEvent]:
        """The one way out for events: whatever ended a request, its sampler goes."""
        for event in events:
            if isinstance(event, Finished | Failed) and event.request_id in self._attached:
                self._detach(event.request_id)
        self._metrics.count_events(events)
        return events
