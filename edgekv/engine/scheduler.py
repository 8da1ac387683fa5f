"""Which requests run, and which of their tokens to decode next. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Set

from edgekv.core.batch import BatchPlan
from edgekv.core.events import EngineEvent, ErrorInfo, Failed, Finished, FinishReason, Sampled
from edgekv.core.request import Request, RequestId, SeqId, Token
from edgekv.core.sequence import Sequence
from edgekv.engine import giving_way
from edgekv.engine.answer_lengths import AnswerLengths
from edgekv.engine.pacing import Pace
from edgekv.engine.starts import Start
from edgekv.engine.step_plan import num_answering, step_plan
from edgekv.engine.waiting_line import Waiting, WaitingLine
from edgekv.kv.cell_cache import CellCache

MAX_OVERTAKES = 32
"""How many younger requests may start before one that waits for room. Short requests use the room
that is too small for a long one; after so many of them the room is left to gather for it.
"""

LOOKAHEAD = 32
"""How many waiting requests a step looks past. Looking at one costs a walk along its prompt, about
0.2 ms for 4,000 tokens, and every one is looked at again whenever a request has ended.
"""


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
    def num_new(self) -> int:
        """Those that wait for their first start."""
        return self.num_waiting - self.num_suspended

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

    def give_way(self) -> list[Sequence]:
        """Suspend those whose slot or cells the next in line needs and whose priority is lower."""
        lowest, passed = giving_way.lowest_rank(self._running.values()), list[Waiting]()
        for entry in self._line.in_order():
            if entry.rank >= lowest or _nobody_may_pass(passed):
                break
            # Of one whose turn it is: nobody goes for that, but it may keep room together.
            is_important = entry.own_rank < lowest
            if is_important and not self._is_led(entry):
                return self._suspend_for(entry)
            if is_important or entry.no_room_since >= 0:
                passed.append(entry)
        return []

    def plan(self) -> BatchPlan:
        """As much of the next step as the batch and the cells have room for."""
        most_tokens = min(self._batch_tokens, self._cache.room())
        return step_plan(self._running.values(), most_tokens, self._pace)

    def suspend_for(self, plan: BatchPlan) -> Sequence | None:
        """Suspend one if cells are too short for answers to go on, or for anything at all."""
        running = self._running.values()
        if plan.slices and self._cache.room() >= num_answering(running):
            return None
        leaving = giving_way.for_cells(running)
        if leaving is not None:
            self.suspend(leaving)
        return leaving

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
        self._line.check_integrity()
        assert sorted(self._running) == self._cache.running()
        for seq_id, seq in self._running.items():
            assert seq.seq_id == seq_id
            assert 0 <= seq.num_computed < len(seq.tokens)
            assert seq.num_computed == self._cache.length(seq_id)

    def _start(self, entry: Waiting) -> Start | None:
        """Give a request a sequence id, or note in `entry` what it waits for."""
        if entry.no_room_since == self._num_left or self._is_led(entry):
            return None
        acquired = self._cache.acquire(entry.tokens, self._num_expected(entry))
        if acquired is None:
            entry.no_room_since = self._num_left
            return None
        self._line.leave(entry.request.id)
        seq = Sequence(entry.request, acquired.seq_id, entry.tokens, acquired.num_known)
        seq.stops = self._cache.checkpoints(seq.seq_id, entry.request.branches)
        seq.arrival, seq.rank, seq.num_overtaken = entry.arrival, entry.rank, entry.num_overtaken
        if entry.claim is not None:
            self._cache.release(entry.claim)
            seq.num_had = entry.num_had
            seq.share_end = giving_way.share_end(entry.num_had, acquired.num_known)
        self._running[seq.seq_id] = seq
        return Start(seq, acquired, is_first=entry.claim is None)

    def _num_expected(self, entry: Waiting) -> int:
        """Cells that a request will probably hold in the end."""
        return len(entry.tokens) + self._num_following(entry.request, entry.num_generated)

    def _num_following(self, request: Request, num_generated: int) -> int:
        """Cells that the rest of an answer will probably need, the next token's not counted."""
        # The last sampled token is returned but never decoded, so it needs no cell.
        most = request.max_tokens - num_generated - 1
        return min(most, self._lengths.remaining(num_generated))

    def _is_led(self, entry: Waiting) -> bool:
        """Whether a running request is about to compute what this one begins with.

        That one is as important from now on as those who wait for it.
        """
        leader = entry.leader
        if leader is None or not self._is_ahead(leader, entry.leader_length):
            promise = self._cache.promised(entry.tokens)
            if promise is None:
                return False
            leader = self._running[promise.holder]
            entry.leader, entry.leader_length = leader, promise.length
            # So that they go on side by side from there. Behind its end the leader would answer,
            # and all others' prompts would come in the small parts that an answer bears.
            leader.stop_at(promise.length)
        leader.rank = min(leader.rank, entry.rank)
        return True

    def _is_ahead(self, leader: Sequence, length: int) -> bool:
        return leader.num_computed < length and self._running.get(leader.seq_id) is leader

    def _suspend_for(self, entry: Waiting) -> list[Sequence]:
        leaving = giving_way.for_request(
            self._running.values(),
            entry.own_rank,
            num_slots=len(self._running) + 1 - self.slots,
            num_cells=self._cache.shortage(entry.tokens, self._num_expected(entry)),
            freed_by=self._cache.freed_by,
        )
        for seq in leaving:
            self.suspend(seq)
        return leaving

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
            more = 1 + self._num_following(seq.request, seq.num_generated)
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


def _nobody_may_pass(passed: list[Waiting]) -> bool:
    """Whether those before a request have been patient for long enough.

    One that was suspended lets nobody of its rank or a lower one pass: it has begun an answer.
    """
    return len(passed) == LOOKAHEAD or any(
        entry.num_overtaken >= MAX_OVERTAKES or entry.is_suspended for entry in passed
    )
