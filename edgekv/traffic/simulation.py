"""A trace, answered by the real scheduler and the real prefix cache, on a clock that is counted.

Nothing is computed: a step takes what `StepTime` says. So what is predicted is what the engine
would do, to the event, as far as the step times hold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

from edgekv.core.batch import BatchPlan
from edgekv.core.events import EngineEvent, Failed, Finished, FinishReason, Sampled, Started
from edgekv.core.frames import Snapshot
from edgekv.core.request import Request, RequestId
from edgekv.engine.engine import Engine, Limits
from edgekv.engine.turns import branches
from edgekv.errors import Overloaded, RequestError
from edgekv.kv.store import Store
from edgekv.traffic.no_work import NoWork
from edgekv.traffic.room import Room
from edgekv.traffic.step_time import Piece, StepTime, work_of
from edgekv.traffic.trace import Trace, Traced


@dataclass(frozen=True, slots=True)
class Answered:
    """How one request fared. Seconds since it came."""

    number: int
    num_prompt: int
    num_reused: int
    num_written: int
    first_token: float
    total: float


@dataclass(slots=True)
class Run:
    """How a trace fared."""

    answered: list[Answered] = field(default_factory=list)
    refused: int = 0
    """Requests that found the queue full, or are too long for a conversation."""
    left: int = 0
    """Whoever asked gave up before the answer was whole."""
    seconds: float = 0.0
    """Until the last one was answered."""
    busy_seconds: float = 0.0
    num_steps: int = 0
    num_suspensions: int = 0
    num_recomputed: int = 0
    """Tokens that were computed again after a suspension."""
    most_cells: int = 0
    """That those that ran held at once, without what was kept."""
    most_running: int = 0
    most_at_once: int = 0
    """Requests that ran or waited."""

    @property
    def hit_rate(self) -> float:
        """The part of all prompt tokens that needed no computing."""
        total = sum(answer.num_prompt for answer in self.answered)
        return sum(answer.num_reused for answer in self.answered) / total if total else 0.0


@dataclass(slots=True)
class _Under:
    """A request that was submitted."""

    traced: Traced
    num_reused: int = 0
    num_sampled: int = 0
    first_token: float | None = None


Hear: TypeAlias = Callable[[float, Sequence[EngineEvent], Snapshot], None]
"""Told of every step and everyone who leaves: the moment, the events, and the engine after it."""


def simulate(trace: Trace, room: Room, step_time: StepTime, hear: Hear | None = None) -> Run:
    """Every answer gets as long as it was, unless who asked for it leaves before."""
    simulation = _Simulation(trace, room, step_time, hear)
    while simulation.go_on():
        pass
    return simulation.end()


def is_in_time(trace: Trace, room: Room, step_time: StepTime, first_token_seconds: float) -> bool:
    """Whether 95 in 100 requests get a first token within so many seconds, and none is refused.

    The simulation ends as soon as that is known.
    """
    simulation = _Simulation(trace, room, step_time, patience=first_token_seconds)
    most_late = len(trace.requests) // 20
    while simulation.go_on():
        if simulation.run.refused or simulation.num_late > most_late:
            return False
    return not simulation.run.refused


@dataclass(frozen=True, slots=True, order=True)
class _Moment:
    """When something comes from outside."""

    seconds: float
    number: int
    leaves: bool
    """Not to ask, but to give up."""


class _Simulation:
    def __init__(
        self,
        trace: Trace,
        room: Room,
        step_time: StepTime,
        hear: Hear | None = None,
        patience: float = inf,
    ) -> None:
        """`patience` is how many seconds a first token may take."""
        self._backend = NoWork(room.cells, room.slots + room.kept)
        self._engine = Engine(
            self._backend,
            Limits(
                room.slots, room.context_length, room.batch, room.max_waiting, room.max_gap_seconds
            ),
            end_tokens=frozenset(),
            sharing=room.shares,
            store=Store(host_limit_bytes=room.host_cells),
        )
        self._room, self._step_time, self._on_events = room, step_time, hear
        self._traced = {traced.number: traced for traced in trace.requests}
        self._coming = deque(sorted(_moments(trace)))
        self._under: dict[RequestId, _Under] = {}
        self._now = 0.0
        self._patience, self._num_began_late = patience, 0
        self.run = Run()

    def go_on(self) -> bool:
        """Do a step, or go to the next request; False once all are answered."""
        while self._coming and (self._engine.is_idle or self._coming[0].seconds <= self._now):
            self._take(self._coming.popleft())
        if self._engine.is_idle:
            return False
        self._step()
        return True

    def end(self) -> Run:
        snapshot = self._engine.snapshot()
        self.run.seconds = self._now
        self.run.num_steps = snapshot.num_steps
        self.run.num_suspensions = snapshot.num_suspensions
        self.run.num_recomputed = snapshot.tokens_recomputed
        return self.run

    @property
    def num_late(self) -> int:
        """Requests whose first token took, or already takes, longer than patience goes."""
        since = self._now - self._patience
        waiting = (u for u in self._under.values() if u.first_token is None)
        return self._num_began_late + sum(u.traced.arrival_seconds < since for u in waiting)

    def _take(self, moment: _Moment) -> None:
        request_id = RequestId(str(moment.number))
        if moment.leaves:
            events = self._engine.cancel(request_id)
            if events:
                self._tell(events)
            return
        if self._now < moment.seconds:
            # There is nothing else to do, and time for what can wait.
            while self._engine.rest():
                pass
            self._now = moment.seconds
        traced = self._traced[moment.number]
        try:
            self._engine.submit(_request(traced, request_id, self._room))
        except (RequestError, Overloaded):
            self.run.refused += 1
            return
        self._under[request_id] = _Under(traced)
        self.run.most_at_once = max(self.run.most_at_once, len(self._under))

    def _step(self) -> None:
        self._backend.last_step = BatchPlan(())
        events = self._engine.step()
        spent = self._seconds()
        self._engine.took(spent)
        self._now += spent
        self.run.busy_seconds += spent
        self._tell(events)

    def _seconds(self) -> float:
        """Of the step just done."""
        snapshot, slices = self._engine.snapshot(), self._backend.last_step.slices
        needed = snapshot.cells_used - snapshot.cells_kept
        self.run.most_cells = max(self.run.most_cells, needed)
        self.run.most_running = max(self.run.most_running, len(slices))
        if not slices:
            return 0.0
        pieces = [Piece(piece.start, len(piece.tokens)) for piece in slices]
        return self._step_time.seconds(work_of(pieces, snapshot.cells_used))

    def _tell(self, events: Sequence[EngineEvent]) -> None:
        told = [event for first in events for event in self._with_end(first)]
        for event in told:
            self._hear(event)
        if self._on_events is not None:
            self._on_events(self._now, told, self._engine.snapshot())

    def _with_end(self, event: EngineEvent) -> list[EngineEvent]:
        """An event, and the end of its answer where that was its last token.

        The engine learns of the end only now, as it does where a model ends its answer.
        """
        under = self._under.get(event.request_id)
        if under is None or not isinstance(event, Sampled):
            return [event]
        under.num_sampled += 1
        if under.num_sampled < under.traced.num_answer:
            return [event]
        return [event, *self._engine.stop(event.request_id)]

    def _hear(self, event: EngineEvent) -> None:
        under = self._under[event.request_id]
        match event:
            case Started(num_reused=num_reused):
                under.num_reused = num_reused
            case Sampled() if under.first_token is None:
                under.first_token = self._now - under.traced.arrival_seconds
                self._num_began_late += under.first_token > self._patience
            case Finished() | Failed():
                self._close(under, event)

    def _close(self, under: _Under, event: Finished | Failed) -> None:
        del self._under[event.request_id]
        if isinstance(event, Finished) and event.reason is FinishReason.CANCELLED:
            self.run.left += 1
            return
        traced = under.traced
        total = self._now - traced.arrival_seconds
        first = total if under.first_token is None else under.first_token
        self.run.answered.append(
            Answered(
                traced.number,
                traced.row.input_length,
                under.num_reused,
                under.num_sampled,
                first,
                total,
            )
        )


def _moments(trace: Trace) -> Iterator[_Moment]:
    for traced in trace.requests:
        yield _Moment(traced.arrival_seconds, traced.number, leaves=False)
        if traced.leaves_seconds is not None:
            yield _Moment(traced.leaves_seconds, traced.number, leaves=True)


def _request(traced: Traced, request_id: RequestId, room: Room) -> Request:
    row, prompt = traced.row, traced.prompt
    most = max(1, room.context_length - row.input_length)
    return Request(
        request_id,
        prompt,
        most if row.max_tokens is None else min(most, row.max_tokens),
        ignore_end=True,
        priority=row.priority,
        # A trace does not say where turns begin.
        branches=() if room.shares else branches(prompt, lambda _: False),
    )
