"""A trace, answered by the real scheduler and the real prefix cache, on a clock that is counted.

Nothing is computed: a step takes what `StepTime` says. So what is predicted is what the engine
would do, to the event, as far as the step times hold.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from edgekv.core.events import EngineEvent, Failed, Finished, Sampled, Started
from edgekv.core.request import Request, RequestId
from edgekv.engine.engine import Engine, Limits
from edgekv.errors import Overloaded, RequestError
from edgekv.kv.store import Store
from edgekv.traffic.no_work import NoWork
from edgekv.traffic.step_time import StepTime
from edgekv.traffic.trace import Trace, Traced


@dataclass(frozen=True, slots=True)
class Room:
    """What there is to answer with. Cells, tokens and requests."""

    slots: int
    kept: int
    cells: int
    context_length: int
    batch: int
    host_cells: int = 0
    """Cells that host memory has copies of."""
    max_waiting: int | None = None
    max_gap_seconds: float = 0.25
    shares: bool = True


@dataclass(frozen=True, slots=True)
class Answered:
    """How one request fared. Seconds since it came."""

    number: int
    num_prompt: int
    num_reused: int
    first_token: float
    total: float


@dataclass(slots=True)
class Run:
    """How a trace fared."""

    answered: list[Answered] = field(default_factory=list)
    refused: int = 0
    """Requests that found the queue full, or are too long for a conversation."""
    seconds: float = 0.0
    """Until the last one was answered."""
    busy_seconds: float = 0.0
    num_suspensions: int = 0
    most_cells: int = 0
    most_running: int = 0

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
    first_token: float | None = None


def simulate(trace: Trace, room: Room, step_time: StepTime) -> Run:
    """Every answer gets as long as it was."""
    return _Simulation(trace, room, step_time).run()


class _Simulation:
    def __init__(self, trace: Trace, room: Room, step_time: StepTime) -> None:
        self._backend = NoWork(room.cells, room.slots + room.kept)
        self._engine = Engine(
            self._backend,
            Limits(
                room.slots, room.context_length, room.batch, room.max_waiting, room.max_gap_seconds
            ),
            end_tokens=frozenset(),
            sharing=room.shares,
            store=Store(host_limit_bytes=room.host_cells) if room.host_cells else None,
        )
        self._step_time = step_time
        self._coming = deque(trace.requests)
        self._under: dict[RequestId, _Under] = {}
        self._now = 0.0
        self._run = Run()

    def run(self) -> Run:
        while self._coming or not self._engine.is_idle:
            if self._engine.is_idle:
                self._now = max(self._now, self._coming[0].arrival_seconds)
            while self._coming and self._coming[0].arrival_seconds <= self._now:
                self._submit(self._coming.popleft())
            if not self._engine.is_idle:
                self._step()
        self._run.seconds = self._now
        self._run.num_suspensions = self._engine.snapshot().num_suspensions
        return self._run

    def _submit(self, traced: Traced) -> None:
        request_id = RequestId(str(traced.number))
        row = traced.row
        request = Request(
            request_id,
            traced.prompt,
            max(1, row.output_length),
            ignore_end=True,
            priority=row.priority,
        )
        try:
            self._engine.submit(request)
        except (RequestError, Overloaded):
            self._run.refused += 1
            return
        self._under[request_id] = _Under(traced)

    def _step(self) -> None:
        self._backend.last_step = (0, 0)
        events = self._engine.step()
        spent = self._step_time.seconds(*self._backend.last_step)
        self._engine.took(spent)
        self._now += spent
        self._run.busy_seconds += spent
        snapshot = self._engine.snapshot()
        self._run.most_cells = max(self._run.most_cells, snapshot.cells_used)
        self._run.most_running = max(self._run.most_running, snapshot.num_running)
        for event in events:
            self._hear(event)

    def _hear(self, event: EngineEvent) -> None:
        under = self._under[event.request_id]
        arrived = under.traced.arrival_seconds
        match event:
            case Started(num_reused=num_reused):
                under.num_reused = num_reused
            case Sampled() if under.first_token is None:
                under.first_token = self._now - arrived
            case Finished() | Failed():
                del self._under[event.request_id]
                total = self._now - arrived
                first = total if under.first_token is None else under.first_token
                row = under.traced.row
                self._run.answered.append(
                    Answered(under.traced.number, row.input_length, under.num_reused, first, total)
                )
