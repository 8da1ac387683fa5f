"""Which requests run, and which of their tokens to decode next. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from edgekv.core.batch import BatchPlan, BatchSlice
from edgekv.core.events import EngineEvent, ErrorInfo, Failed, Finished, FinishReason, Sampled
from edgekv.core.request import Request, RequestId, SeqId, Token
from edgekv.core.sequence import Sequence
from edgekv.engine.answer_lengths import AnswerLengths
from edgekv.engine.pacing import Pace
from edgekv.engine.waiting_line import Waiting, WaitingLine
from edgekv.kv.cell_cache import Acquired, CellCache

MAX_OVERTAKES = 32
"""How many younger requests may start before one that waits for room. Short requests use the room
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

MIN_SHARE = 32
"""Tokens that a resumed answer grows by before it is suspended again, if another one can be."""


@dataclass(frozen=True, slots=True)
class Start:
    """A sequence that has an id now. `acquired` says what of its tokens needs no computing."""

    seq: Sequence
    acquired: Acquired
    num_recomputed: int
    """Tokens that had cells before it was suspended and have none now."""

    @property
    def is_first(self) -> bool:
        return self.seq.resumed_length is None


class Scheduler:
    """Starts requests in `admit`; `commit`, `fail` and `end` give the events of those that end."""

    def __init__(
        self,
        cache: CellCache,
        *,
        slots: int,
        batch_tokens: int,
        end_tokens: frozenset[Token],
        pace: Pace,
    ) -> None:
        self._cache, self._pace = cache, pace
        self._batch_tokens, self._end_tokens = batch_tokens, end_tokens
        self.slots = slots
        """Requests that may run at once. When it gets less, those that run go on to their end."""
        self._line = WaitingLine()
        self._lengths = AnswerLengths()
        self._running: dict[SeqId, Sequence] = {}
        self._num_left = 0
        """Times that a running sequence ended or was suspended."""

    @property
    def running(self) -> Mapping[SeqId, Sequence]:
        """By sequence id, in the order of their starts."""
        return self._running

    @property
    def num_waiting(self) -> int:
        """Those suspended included."""
        return len(self._line)

    @property
    def num_suspended(self) -> int:
        return self._line.num_suspended

    @property
    def num_free_slots(self) -> int:
        return max(0, self.slots - len(self._running))

    def waiting(self) -> list[Waiting]:
        """The next to start first."""
        return self._line.in_order()

    def submit(self, request: Request) -> None:
        """Queue a request that fits at least when nothing else runs."""
        if request.id in self._line or self._find(request.id):
            raise ValueError(f"the request id {request.id!r} is in use")
        self._line.submit(request)

    def admit(self) -> list[Start]:
        """Start waiting requests in their order, as far as slots and cells go."""
        if not self.num_free_slots or not len(self._line):
            return []
        starts: list[Start] = []
        passed: list[Waiting] = []
        for entry in self._line.in_order():
            if not self.num_free_slots or _nobody_may_pass(passed):
                break
            start = self._start(entry)
            if start is None:
                passed.append(entry)
            else:
                starts.append(start)
                self._line.overtake(entry)
        return starts

    def plan(self) -> BatchPlan:
        """The shortest pending first: a long prompt never delays an answer that is under way."""
        num_answering = self._num_answering()
        budget = min(self._batch_tokens, self._cache.room())
        for_prompts = max(0, budget - num_answering)
        if num_answering:
            for_prompts = min(for_prompts, self._pace.limit(for_prompts))
            budget = min(budget, num_answering + for_prompts)
        oldest = next((s for s in self._running.values() if s.num_pending > 1), None)
        held_back = _part_of(oldest, for_prompts) if oldest else 0
        budget -= held_back
        slices = []
        for seq in sorted(self._running.values(), key=lambda s: s.num_pending):
            if seq is oldest:
                budget += held_back
            chunk = tuple(seq.tokens[seq.num_computed : seq.slice_end(budget)])
            if chunk:
                reaches_end = len(chunk) == seq.num_pending
                slices.append(BatchSlice(seq.seq_id, seq.num_computed, chunk, reaches_end))
                budget -= len(chunk)
        return BatchPlan(tuple(slices))

    def suspend_for(self, plan: BatchPlan) -> Sequence | None:
        """Suspend one if cells are too short for answers to go on, or for anything at all.

        The one of lowest priority, then the youngest; never the oldest of the highest, so that
        there is always one that comes to its end.
        """
        if plan.slices and self._cache.room() >= self._num_answering():
            return None
        if len(self._running) < 2:
            return None
        senior = min(self._running.values(), key=_seniority)
        others = [seq for seq in self._running.values() if seq is not senior]
        victim = max([s for s in others if _had_its_share(s)] or others, key=_seniority)
        self.suspend(victim)
        return victim

    def make_room(self, plan: BatchPlan) -> None:
        """Have the cells that a plan takes free."""
        self._cache.make_room(plan.num_tokens)

    def suspend(self, seq: Sequence) -> None:
        """Take a running sequence's id and cells away. It waits, and goes on later."""
        self._leave(seq.seq_id)
        self._line.suspend(seq, self._cache.suspend(seq.seq_id))

    def resize(self, slots: int, batch_tokens: int) -> None:
        """Go on in another pool. Nothing runs."""
        self.slots, self._batch_tokens = slots, batch_tokens

    def commit(
        self, plan: BatchPlan, sampled: Mapping[SeqId, Token], complete: Set[SeqId]
    ) -> list[EngineEvent]:
        """Record what was computed and sampled, and which answers nothing may come after."""
        events: list[EngineEvent] = []
        for piece in plan.slices:
            seq = self._running[piece.seq_id]
            seq.num_computed += len(piece.tokens)
            self._cache.advance(seq.seq_id, piece.tokens)
            if piece.wants_logits:
                events += self._append(seq, sampled[seq.seq_id], seq.seq_id in complete)
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
        waiting = self._line.leave(request_id)
        if waiting is not None:
            if waiting.claim is not None:
                self._cache.release(waiting.claim)
            return [Finished(request_id, reason, waiting.num_generated)]
        seq = self._find(request_id)
        return [self._finish(seq, reason)] if seq else []

    def check_integrity(self) -> None:
        """Raises `AssertionError` if the books of scheduler and cache do not agree."""
        self._cache.check_integrity()
        assert sorted(self._running) == self._cache.running()
        for seq_id, seq in self._running.items():
            assert seq.seq_id == seq_id
            assert 0 <= seq.num_computed < len(seq.tokens)
            assert seq.num_computed == self._cache.length(seq_id)

    def _start(self, entry: Waiting) -> Start | None:
        """Give a request a sequence id, or note in `entry` what it waits for."""
        if self._waits(entry):
            return None
        promise = self._cache.promised(entry.tokens)
        if promise is not None:
            entry.leader, entry.leader_length = self._running[promise.holder], promise.length
            return None
        num_more = self._num_expected(entry.request, entry.num_generated)
        acquired = self._cache.acquire(entry.tokens, len(entry.tokens) + num_more)
        if acquired is None:
            entry.no_room_since = self._num_left
            return None
        self._line.leave(entry.request.id)
        seq = Sequence(entry.request, acquired.seq_id, entry.tokens, acquired.num_known)
        seq.checkpoints = self._cache.checkpoints(seq.seq_id, entry.request.branches)
        seq.arrival, seq.rank, seq.num_overtaken = entry.arrival, entry.rank, entry.num_overtaken
        if entry.claim is not None:
            self._cache.release(entry.claim)
            seq.resumed_length = len(entry.tokens)
        self._running[seq.seq_id] = seq
        return Start(seq, acquired, max(0, entry.num_lost - acquired.num_known))

    def _num_expected(self, request: Request, num_generated: int) -> int:
        """Cells that the rest of an answer will probably need, the next token's not counted."""
        # The last sampled token is returned but never decoded, so it needs no cell.
        most = request.max_tokens - num_generated - 1
        return min(most, self._lengths.remaining(num_generated))

    def _waits(self, entry: Waiting) -> bool:
        """Whether nothing has happened that could let this request start."""
        leader = entry.leader
        return entry.no_room_since == self._num_left or (
            leader is not None
            and leader.num_computed < entry.leader_length
            and self._running.get(leader.seq_id) is leader
        )

    def _num_answering(self) -> int:
        return sum(1 for seq in self._running.values() if seq.num_pending == 1)

    def _append(self, seq: Sequence, token: Token, is_complete: bool) -> list[EngineEvent]:
        if token in self._end_tokens and not seq.request.ignore_end:
            return [self._finish(seq, FinishReason.STOP)]
        seq.tokens.append(token)
        events: list[EngineEvent] = [Sampled(seq.request.id, token)]
        if is_complete or seq.num_generated == seq.request.max_tokens:
            reason = FinishReason.STOP if is_complete else FinishReason.LENGTH
            events.append(self._finish(seq, reason))
        elif not self._cache.expected(seq.seq_id):
            # It got longer than expected, and what was learned since may say how much longer.
            more = 1 + self._num_expected(seq.request, seq.num_generated)
            self._cache.expect(seq.seq_id, more)
        return events

    def _finish(self, seq: Sequence, reason: FinishReason) -> Finished:
        self._leave(seq.seq_id)
        self._cache.retire(seq.seq_id)
        if reason is not FinishReason.CANCELLED:
            self._lengths.learn(seq.num_generated)
        return Finished(seq.request.id, reason, seq.num_generated)

    def _leave(self, seq_id: SeqId) -> Sequence:
        self._num_left += 1
        return self._running.pop(seq_id)

    def _find(self, request_id: RequestId) -> Sequence | None:
        return next((s for s in self._running.values() if s.request.id == request_id), None)


def _part_of(oldest: Sequence, for_prompts: int) -> int:
    """How much of a step's room for prompts is for the oldest, whatever the others want."""
    return min(oldest.num_pending, -(-for_prompts // OLDEST_PROMPT_PART))


def _seniority(seq: Sequence) -> tuple[int, int]:
    """The lowest is suspended last."""
    return seq.rank, seq.arrival


def _had_its_share(seq: Sequence) -> bool:
    return seq.resumed_length is None or len(seq.tokens) - seq.resumed_length >= MIN_SHARE


def _nobody_may_pass(passed: list[Waiting]) -> bool:
    """Whether those before a request have been patient for long enough.

    One that was suspended lets nobody of its rank or a lower one pass: it has begun an answer.
    """
    return len(passed) == LOOKAHEAD or any(
        entry.num_overtaken >= MAX_OVERTAKES or entry.is_suspended for entry in passed
    )
