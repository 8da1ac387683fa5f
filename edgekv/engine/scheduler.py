"""Which requests run, and which of their tokens to decode next. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgekv.core.batch import BatchPlan, BatchSlice
from edgekv.core.events import EngineEvent, ErrorInfo, Failed, Finished, FinishReason, Sampled
from edgekv.core.request import Request, RequestId, SeqId, Token
from edgekv.core.sequence import Sequence
from edgekv.kv.cell_cache import CellCache

MAX_OVERTAKES = 32
"""How many younger requests may start before the oldest waiting one. Short requests use the room
that is too small for a long one; after so many of them the room is left to gather for it.
"""

LOOKAHEAD = 32
"""How many waiting requests a step looks past. Looking at one costs a walk along its prompt, about
0.2 ms for 4,000 tokens, and every one is looked at again whenever a request has ended.
"""

OLDEST_PROMPT_PART = 4
"""The oldest prompt gets one part in so many of what a step has left for prompts, so that a
stream of short ones cannot hold it up for ever.
"""


@dataclass(slots=True, eq=False)
class Waiting:
    """A request without a sequence id, and what it waits for."""

    request: Request
    num_overtaken: int = 0
    leader: Sequence | None = None
    """This sequence is about to compute the first `leader_length` tokens of the prompt."""
    leader_length: int = 0
    no_room_since: int = -1
    """It found no room when so many requests had ended. Room comes only when one ends."""


class Scheduler:
    """Starts requests in `admit`; `commit`, `fail` and `end` give the events of those that end."""

    def __init__(
        self,
        cache: CellCache,
        *,
        slots: int,
        batch_tokens: int,
        end_tokens: frozenset[Token],
    ) -> None:
        self._cache = cache
        self._slots, self._batch_tokens, self._end_tokens = slots, batch_tokens, end_tokens
        self._waiting: dict[RequestId, Waiting] = {}
        self._running: dict[SeqId, Sequence] = {}
        self._num_ended = 0

    @property
    def running(self) -> Mapping[SeqId, Sequence]:
        """By sequence id, oldest first."""
        return self._running

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def submit(self, request: Request) -> None:
        """Queue a request that fits at least when nothing else runs."""
        if request.id in self._waiting or self._find(request.id):
            raise ValueError(f"the request id {request.id!r} is in use")
        self._waiting[request.id] = Waiting(request)

    def admit(self) -> list[Sequence]:
        """Start waiting requests, oldest first, as far as slots and cells go."""
        started: list[Sequence] = []
        passed: list[Waiting] = []
        for entry in list(self._waiting.values()):
            if len(self._running) == self._slots or _nobody_may_pass(passed):
                break
            seq = self._start(entry)
            if seq is None:
                passed.append(entry)
                continue
            started.append(seq)
            for older in passed:
                older.num_overtaken += 1
        return started

    def plan(self) -> BatchPlan:
        """The shortest pending first: a long prompt never delays an answer that is under way."""
        oldest = next((s for s in self._running.values() if s.num_pending > 1), None)
        held_back = self._part_of(oldest) if oldest else 0
        budget = self._batch_tokens - held_back
        slices = []
        for seq in sorted(self._running.values(), key=lambda s: s.num_pending):
            if seq is oldest:
                budget += held_back
            chunk = tuple(seq.tokens[seq.num_computed : seq.num_computed + budget])
            if chunk:
                reaches_end = len(chunk) == seq.num_pending
                slices.append(BatchSlice(seq.seq_id, seq.num_computed, chunk, reaches_end))
                budget -= len(chunk)
        return BatchPlan(tuple(slices))

    def commit(self, plan: BatchPlan, sampled: Mapping[SeqId, Token]) -> list[EngineEvent]:
        """Record what a decoded plan computed and what was sampled from it."""
        events: list[EngineEvent] = []
        for piece in plan.slices:
            seq = self._running[piece.seq_id]
            seq.num_computed += len(piece.tokens)
            self._cache.advance(seq.seq_id, piece.tokens)
            if piece.wants_logits:
                events += self._append(seq, sampled[piece.seq_id])
        return events

    def fail(self, plan: BatchPlan, error: ErrorInfo) -> list[EngineEvent]:
        """End the sequences of a plan that was not, or only in part, decoded."""
        events: list[EngineEvent] = []
        for piece in plan.slices:
            seq = self._leave(piece.seq_id)
            self._cache.evict(piece.seq_id, piece.start + len(piece.tokens))
            events.append(Failed(seq.request.id, error))
        return events

    def end(self, request_id: RequestId, reason: FinishReason) -> list[EngineEvent]:
        """End a request now, running or waiting. Of unknown ones there is nothing to tell."""
        if self._waiting.pop(request_id, None):
            return [Finished(request_id, reason, num_generated=0)]
        seq = self._find(request_id)
        return [self._finish(seq, reason)] if seq else []

    def check_integrity(self) -> None:
        """Raises `AssertionError` if the books of scheduler and cache do not agree."""
        self._cache.check_integrity()
        assert len(self._running) <= self._slots
        assert sorted(self._running) == self._cache.running()
        for seq_id, seq in self._running.items():
            assert seq.seq_id == seq_id
            assert 0 <= seq.num_computed < len(seq.tokens)
            assert seq.num_computed == self._cache.length(seq_id)

    def _start(self, entry: Waiting) -> Sequence | None:
        """Give a request a sequence id, or note in `entry` what it waits for."""
        if self._waits(entry):
            return None
        request = entry.request
        promise = self._cache.promised(request.known)
        if promise is not None:
            entry.leader, entry.leader_length = self._running[promise.holder], promise.length
            return None
        acquired = self._cache.acquire(request.known, request.worst_case_cells)
        if acquired is None:
            entry.no_room_since = self._num_ended
            return None
        del self._waiting[request.id]
        seq = Sequence(request, acquired.seq_id, list(request.known), acquired.num_reused)
        self._running[seq.seq_id] = seq
        return seq

    def _waits(self, entry: Waiting) -> bool:
        """Whether nothing has happened that could let this request start."""
        leader = entry.leader
        return entry.no_room_since == self._num_ended or (
            leader is not None
            and leader.num_computed < entry.leader_length
            and self._running.get(leader.seq_id) is leader
        )

    def _part_of(self, oldest: Sequence) -> int:
        """How much of a step is for the oldest prompt, whatever the others want."""
        num_answering = sum(1 for s in self._running.values() if s.num_pending == 1)
        left = self._batch_tokens - num_answering
        return min(oldest.num_pending, -(-left // OLDEST_PROMPT_PART))

    def _append(self, seq: Sequence, token: Token) -> list[EngineEvent]:
        if token in self._end_tokens and not seq.request.ignore_end:
            return [self._finish(seq, FinishReason.STOP)]
        seq.tokens.append(token)
        events: list[EngineEvent] = [Sampled(seq.request.id, token)]
        if seq.num_generated == seq.request.max_tokens:
            events.append(self._finish(seq, FinishReason.LENGTH))
        return events

    def _finish(self, seq: Sequence, reason: FinishReason) -> Finished:
        self._leave(seq.seq_id)
        self._cache.retire(seq.seq_id)
        return Finished(seq.request.id, reason, seq.num_generated)

    def _leave(self, seq_id: SeqId) -> Sequence:
        self._num_ended += 1
        return self._running.pop(seq_id)

    def _find(self, request_id: RequestId) -> Sequence | None:
        return next((s for s in self._running.values() if s.request.id == request_id), None)


def _nobody_may_pass(waiting: list[Waiting]) -> bool:
    """Whether those before a request, oldest first, have been patient for long enough."""
    return bool(waiting) and (
        len(waiting) == LOOKAHEAD or waiting[0].num_overtaken == MAX_OVERTAKES
    )
