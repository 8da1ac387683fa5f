"""Which wall a load hits first on this machine, and what each cure would do about it.

The cures are tried in the order in which they are worth trying: memory given cell by cell, shared
prefixes, smaller keys and values, then slots and copies in host memory. Each is a simulation of the
same trace with one thing changed, so a gain is one that the engine would really have.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace

from edgekv.traffic.load import Wall
from edgekv.traffic.room import Room
from edgekv.traffic.simulation import Run, is_in_time, simulate
from edgekv.traffic.step_time import StepTime
from edgekv.traffic.trace import Trace

WORTH_SAYING = 0.1
"""A gain below this is none: another order of the same requests makes as much."""
HARDLY = 1.5
"""Requests hardly wait for each other if first tokens take no longer than so many times as long."""
MUCH_MEMORY = 1 << 40
"""Cells: more than any trace fills."""
SLOWEST, FASTEST = 1 / 4096, 64.0
"""How many times as fast a trace is let come at most, and at least."""
NEAR_ENOUGH = 1.2
"""Between a load that is served in time and one that is not."""


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
    left: int
    """Whose askers gave up before the answer was whole."""
    suspensions: int
    most_cells: int
    most_running: int
    most_at_once: int
    """Requests that ran or waited."""


@dataclass(frozen=True, slots=True)
class Cure:
    name: str
    is_room: bool
    """For keys and values: what helps where memory is the wall."""
    outcome: Outcome
    gain: float
    """The part of the 95th percentile of a whole answer's time that it saves; may be negative."""


@dataclass(frozen=True, slots=True)
class Advice:
    wall: Wall
    planned: Outcome
    paging_saves: float
    """The part of the cells that giving each running request a whole context would waste."""
    unshared: Outcome
    """Were every prompt computed whole."""
    sharing_gain: float
    """As that of a cure, against `unshared`."""
    hit_rate_boundless: float
    """With memory for everything."""
    cures: tuple[Cure, ...]
    """Tried, whether they help or not."""

    @property
    def helpful(self) -> tuple[Cure, ...]:
        return tuple(cure for cure in self.cures if cure.gain >= WORTH_SAYING)


@dataclass(frozen=True, slots=True)
class Trials:
    """What else there could be room for. None where it is there already."""

    more_copies: tuple[str, int]
    """How to have room for so many more copied cells."""
    q8_0_cells: int | None
    """In the pool, if keys and values were q8_0."""

    def rooms(self, room: Room) -> Iterator[tuple[str, bool, Room]]:
        """Each has one thing changed: the option, whether it is room, and what there is then."""
        if self.q8_0_cells is not None:
            yield "--kv-type q8_0", True, replace(room, cells=self.q8_0_cells)
        option, num_cells = self.more_copies
        yield option, True, replace(room, host_cells=room.host_cells + num_cells)
        yield f"--slots {2 * room.slots}", False, replace(room, slots=2 * room.slots)
        if room.slots > 1:
            yield f"--slots {room.slots // 2}", False, replace(room, slots=room.slots // 2)


def advise(trace: Trace, room: Room, step_time: StepTime, trials: Trials) -> Advice:
    planned = outcome(trace, room, step_time)
    boundless = outcome(trace, _boundless(room), step_time)
    unshared = outcome(trace, replace(room, shares=False, host_cells=0, kept=0), step_time)
    found = [
        (name, is_room, outcome(trace, other, step_time))
        for name, is_room, other in trials.rooms(room)
    ]
    reserved = planned.most_running * room.context_length
    return Advice(
        wall=_wall(trace, room, step_time, planned, boundless),
        planned=planned,
        paging_saves=1 - planned.most_cells / reserved if reserved else 0.0,
        unshared=unshared,
        sharing_gain=_gain(unshared, planned),
        hit_rate_boundless=boundless.hit_rate,
        cures=tuple(Cure(name, is_room, one, _gain(planned, one)) for name, is_room, one in found),
    )


def wall_of(trace: Trace, room: Room, step_time: StepTime) -> Wall:
    """What bounds a trace."""
    planned = outcome(trace, room, step_time)
    return _wall(trace, room, step_time, planned, outcome(trace, _boundless(room), step_time))


def times_over(trace: Trace, room: Room, step_time: StepTime, first_token_goal: float) -> float:
    """How many times as fast the trace may come so that 95 in 100 get a first token in time.

    0 if it may not even come `SLOWEST`, and `FASTEST` if that is no trouble.
    """

    def is_fine(factor: float) -> bool:
        return is_in_time(trace.faster(factor), room, step_time, first_token_goal)

    low = high = 1.0
    while low > SLOWEST and not is_fine(low):
        low, high = low / 4, low
    if low <= SLOWEST:
        return SLOWEST if is_fine(SLOWEST) else 0.0
    while high < FASTEST and (high <= low or is_fine(high)):
        low, high = high, high * 4
    if high >= FASTEST:
        return FASTEST
    while high / low > NEAR_ENOUGH:
        middle = (low * high) ** 0.5
        if is_fine(middle):
            low = middle
        else:
            high = middle
    return low


def outcome(trace: Trace, room: Room, step_time: StepTime) -> Outcome:
    return outcome_of(simulate(trace, room, step_time))


def outcome_of(run: Run) -> Outcome:
    first = [answer.first_token for answer in run.answered]
    total = [answer.total for answer in run.answered]
    return Outcome(
        hit_rate=run.hit_rate,
        first_token_p50=percentile(first, 50),
        first_token_p95=percentile(first, 95),
        total_p50=percentile(total, 50),
        total_p95=percentile(total, 95),
        tokens_per_second=sum(a.num_written for a in run.answered) / max(1e-9, run.busy_seconds),
        busy=run.busy_seconds / run.seconds if run.seconds else 0.0,
        refused=run.refused,
        left=run.left,
        suspensions=run.num_suspensions,
        most_cells=run.most_cells,
        most_running=run.most_running,
        most_at_once=run.most_at_once,
    )


def percentile(values: list[float], percent: int) -> float:
    """Linear between the ranks; 0 of nothing."""
    if len(values) < 2:
        return values[0] if values else 0.0
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def _boundless(room: Room) -> Room:
    return replace(room, cells=MUCH_MEMORY, host_cells=MUCH_MEMORY)


def _gain(before: Outcome, after: Outcome) -> float:
    return 1 - after.total_p95 / before.total_p95 if before.total_p95 else 0.0


def _wall(
    trace: Trace, room: Room, step_time: StepTime, planned: Outcome, boundless: Outcome
) -> Wall:
    """Memory, if more of it saves at least half of what twice the speed would: that halves every
    answer's own time, too. Else speed, if first tokens come late for those before them.
    """
    by_memory = _gain(planned, boundless)
    if by_memory >= WORTH_SAYING:
        fast = outcome(trace, room, step_time.times(1 / 2))
        if by_memory >= _gain(planned, fast) / 2:
            return Wall.MEMORY
    alone = outcome(trace.apart(), room, step_time)
    waits = planned.first_token_p95 > HARDLY * alone.first_token_p95
    return Wall.COMPUTE if waits else Wall.NONE
