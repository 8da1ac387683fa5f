"""Which wall a load hits first on this machine, and what each cure would do about it.

The cures are tried in the order in which they are worth trying: memory given cell by cell, shared
prefixes, smaller keys and values, then slots and copies in host memory. Each is a simulation of the
same trace with one thing changed, so a gain is one that the engine would really have.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from edgekv.traffic.simulation import Answered, Room, Run, simulate
from edgekv.traffic.step_time import StepTime
from edgekv.traffic.trace import Trace

WORTH_SAYING = 0.05
"""A gain below this is none: step times are no more exact."""
Q8_CELLS = 64 / 34
"""Cells of q8_0 in the room of one of f16: 32 elements take 34 bytes instead of 64."""
MUCH_MEMORY = 1 << 40
"""Cells: more than any trace fills."""


class Wall(StrEnum):
    MEMORY = "memory"
    COMPUTE = "compute"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a trace would fare. Seconds, of those that are answered."""

    hit_rate: float
    first_token_p50: float
    first_token_p95: float
    total_p50: float
    total_p95: float
    tokens_per_second: float
    """Of answers, while the engine works."""
    busy: float
    """The part of the time in which the engine works."""
    refused: int
    suspensions: int
    most_cells: int
    most_running: int


@dataclass(frozen=True, slots=True)
class Cure:
    name: str
    outcome: Outcome
    gain: float
    """The part of the 95th percentile of a whole answer's time that it saves; may be negative."""


@dataclass(frozen=True, slots=True)
class Advice:
    wall: Wall
    planned: Outcome
    paging_saves: float
    """The part of the cells that giving each running request a whole context would waste."""
    hit_rate_without: float
    """Without any reuse: 0, unless requests run at once."""
    hit_rate_boundless: float
    """With memory for everything."""
    cures: tuple[Cure, ...]
    """Tried, whether they help or not."""

    @property
    def helpful(self) -> tuple[Cure, ...]:
        worth = (cure for cure in self.cures if cure.gain >= WORTH_SAYING)
        return tuple(sorted(worth, key=lambda cure: -cure.gain))


def advise(trace: Trace, room: Room, step_time: StepTime, *, host_step_cells: int) -> Advice:
    """`host_step_cells` is by how many cells more host memory is tried."""
    planned = outcome(trace, room, step_time)
    boundless = outcome(trace, _boundless(room), step_time)
    fast = outcome(trace, room, _twice_as_fast(step_time))
    without = outcome(trace, replace(room, shares=False, host_cells=0, kept=0), step_time)
    cures = tuple(
        Cure(name, found, _gain(planned, found))
        for name, found in (
            (name, outcome(trace, changed, step_time))
            for name, changed in _changes(room, host_step_cells)
        )
    )
    reserved = planned.most_running * room.context_length
    return Advice(
        wall=_wall(planned, boundless, fast),
        planned=planned,
        paging_saves=1 - planned.most_cells / reserved if reserved else 0.0,
        hit_rate_without=without.hit_rate,
        hit_rate_boundless=boundless.hit_rate,
        cures=cures,
    )


def times_over(trace: Trace, room: Room, step_time: StepTime, first_token_goal: float) -> float:
    """How many times as fast the trace may come so that 95 % get a first token in time.

    0 if it may not even come at a sixteenth of its pace, 16 if sixteen times is no trouble.
    """
    low, high = 1 / 16, 16.0
    if not _is_in_time(trace.faster(low), room, step_time, first_token_goal):
        return 0.0
    if _is_in_time(trace.faster(high), room, step_time, first_token_goal):
        return high
    while high / low > 1.1:
        middle = (low * high) ** 0.5
        if _is_in_time(trace.faster(middle), room, step_time, first_token_goal):
            low = middle
        else:
            high = middle
    return low


def outcome(trace: Trace, room: Room, step_time: StepTime) -> Outcome:
    return _outcome(trace, simulate(trace, room, step_time))


def _outcome(trace: Trace, run: Run) -> Outcome:
    first = [answer.first_token for answer in run.answered]
    total = [answer.total for answer in run.answered]
    return Outcome(
        hit_rate=run.hit_rate,
        first_token_p50=percentile(first, 50),
        first_token_p95=percentile(first, 95),
        total_p50=percentile(total, 50),
        total_p95=percentile(total, 95),
        tokens_per_second=_num_written(trace, run.answered) / max(1e-9, run.busy_seconds),
        busy=run.busy_seconds / run.seconds if run.seconds else 0.0,
        refused=run.refused,
        suspensions=run.num_suspensions,
        most_cells=run.most_cells,
        most_running=run.most_running,
    )


def percentile(values: list[float], percent: int) -> float:
    """Linear between the ranks; 0 of nothing."""
    if len(values) < 2:
        return values[0] if values else 0.0
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def _num_written(trace: Trace, answered: list[Answered]) -> int:
    lengths = {request.number: request.row.output_length for request in trace.requests}
    return sum(lengths[answer.number] for answer in answered)


def _boundless(room: Room) -> Room:
    return replace(room, cells=MUCH_MEMORY, host_cells=0)


def _twice_as_fast(step_time: StepTime) -> StepTime:
    return StepTime(step_time.step / 2, step_time.prompt_token / 2, step_time.answer / 2)


def _changes(room: Room, host_step_cells: int) -> Iterator[tuple[str, Room]]:
    yield "q8_0 keys and values", replace(room, cells=int(room.cells * Q8_CELLS))
    more = room.host_cells + host_step_cells
    yield "more host cache", replace(room, host_cells=more)
    yield "twice the slots", replace(room, slots=2 * room.slots)
    if room.slots > 1:
        yield "half the slots", replace(room, slots=room.slots // 2)


def _gain(before: Outcome, after: Outcome) -> float:
    return 1 - after.total_p95 / before.total_p95 if before.total_p95 else 0.0


def _wall(planned: Outcome, boundless: Outcome, fast: Outcome) -> Wall:
    """The one whose removal saves more, if either saves anything worth saying."""
    by_memory, by_speed = _gain(planned, boundless), _gain(planned, fast)
    if by_memory >= WORTH_SAYING and by_memory >= by_speed / 2:
        # Twice the speed halves every answer's own time too, so half of that gain is no wall.
        return Wall.MEMORY
    return Wall.COMPUTE if planned.first_token_p95 > 2 * fast.first_token_p95 else Wall.NONE


def _is_in_time(trace: Trace, room: Room, step_time: StepTime, goal: float) -> bool:
    found = outcome(trace, room, step_time)
    return found.first_token_p95 <= goal and not found.refused
