"""`edgekv advise`: which wall a load hits first on this machine, and which cure helps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from edgekv.budget.sizes import counted
from edgekv.budget.wish import Wish
from edgekv.cli.options import budget_options
from edgekv.cli.progress import duration, stage_line
from edgekv.core.plan import MemoryPlan
from edgekv.errors import Unavailable
from edgekv.service.conduct import AS_USUAL
from edgekv.service.stages import Stage
from edgekv.traffic.advice import (
    FASTEST,
    WORTH_SAYING,
    Advice,
    Outcome,
    Trials,
    advise,
    percentile,
    times_over,
    wall_of,
)
from edgekv.traffic.export import EXPORTS
from edgekv.traffic.load import Wall
from edgekv.traffic.room import Room, bytes_per_cell, room_of
from edgekv.traffic.step_time import StepTime, fitted
from edgekv.traffic.trace import Trace, read_trace
from edgekv.tui.visible import visible

SCHEMA = 1
GIB = 1024**3
MORE_COPIES = 4
"""Times as much disk for copies of conversations is tried."""
SECONDS_TO_MEASURE = 12.0
BEYOND = 1.5
"""Times the load that is served in time: what bounds that is the first wall."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How the trace is to be simulated."""

    requests: int
    speed_up: float
    goal: float
    """Seconds to a first token."""


@dataclass(frozen=True, slots=True)
class Found:
    """What the simulations say."""

    advice: Advice
    times: float
    """As `times_over`."""
    beyond: Wall | None
    """What bounds a load beyond that; None where it is known already."""


@click.command()
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@budget_options
@click.option(
    "--requests",
    type=click.IntRange(1),
    default=300,
    show_default=True,
    metavar="N",
    help="Simulate so many from the beginning of the trace.",
)
@click.option(
    "--speed-up",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    metavar="TIMES",
    help="Let the requests come so many times as fast.",
)
@click.option(
    "--first-token",
    "goal",
    type=click.FloatRange(0, min_open=True),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="The wait for a first token that 95 in 100 must not exceed.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, times in seconds.")
@click.option("--export", type=click.Choice(list(EXPORTS)), help="Only print a start command.")
def command(
    trace: Path, path: str, wish: Wish, as_json: bool, export: str | None, **asked: Any
) -> None:
    """Simulate TRACE on MODEL as it would be planned here, and say what bounds it.

    TRACE is a recording of 'edgekv serve --record', Mooncake's JSON lines or Azure's CSV. The
    model is loaded for some seconds, to measure how fast it reads and writes on this machine; for
    --export it is only planned.
    """
    whole, how = read_trace(trace), Asked(**asked)
    if export is not None:
        click.echo(EXPORTS[export](asyncio.run(_plan(path, wish))), nl=False)
        return
    plan, step_time = asyncio.run(_measure(path, wish))
    room = room_of(plan, AS_USUAL.disk_cache_bytes)
    fitting = whole.no_longer_than(room.context_length)
    load = Trace(fitting.requests[: how.requests]).faster(how.speed_up)
    if not load.requests:
        raise Unavailable(
            f"No request of the trace fits a conversation of {room.context_length:,} tokens; "
            "plan a longer --ctx, or take another trace."
        )
    found = _found(load, room, step_time, trials_of(plan), how.goal)
    num_left_out = len(whole.requests) - len(fitting.requests)
    if as_json:
        document = {
            "schema": SCHEMA,
            "requests": len(load.requests),
            "too_long": num_left_out,
            "advice": asdict(found.advice),
            "times_over": found.times,
            "wall_beyond": found.beyond,
            "first_token_goal_seconds": how.goal,
            "step_seconds": asdict(step_time),
        }
        click.echo(msgspec.json.encode(document))
        return
    lines = report(load, found, num_left_out, how.goal)
    click.echo("\n".join(visible(line) for line in lines))


def _found(load: Trace, room: Room, step_time: StepTime, trials: Trials, goal: float) -> Found:
    advice = advise(load, room, step_time, trials)
    times = times_over(load, room, step_time, goal)
    beyond = None
    if advice.wall is Wall.NONE and 0 < times < FASTEST:
        beyond = wall_of(load.faster(BEYOND * times), room, step_time)
    return Found(advice, times, beyond)


def report(load: Trace, found: Found, num_left_out: int, goal: float) -> Iterator[str]:
    """What was found, as lines of text for people."""
    yield from _load(load, num_left_out)
    yield ""
    yield from _forecast(found.advice)
    yield ""
    yield from _decision(found.advice, load.knows_prefixes)
    yield ""
    yield _users(found, goal)


def trials_of(plan: MemoryPlan) -> Trials:
    """What else the memory of a plan could hold."""
    per_cell = bytes_per_cell(plan)
    smaller = bytes_per_cell(plan, "q8_0")
    cells = plan.choice.cells * per_cell // smaller
    saves = "q8_0" in plan.model.kv_bytes_per_cell and smaller < per_cell
    disk = AS_USUAL.disk_cache_bytes
    option = f"--disk-cache {MORE_COPIES * disk // GIB}GiB"
    more_copies = option, (MORE_COPIES - 1) * disk // per_cell
    return Trials(more_copies, cells if saves else None)


async def _plan(path: str, wish: Wish) -> MemoryPlan:
    from edgekv.service.worker import Worker

    worker = Worker(path, wish)
    try:
        return await worker.make_plan()
    finally:
        await worker.close()


async def _measure(path: str, wish: Wish) -> tuple[MemoryPlan, StepTime]:
    from edgekv.service.measuring import ALONE
    from edgekv.service.step_times import StepMeasurement
    from edgekv.service.worker import Worker

    show = stage_line()
    show(Stage(0, 0, "loading"))
    worker = Worker(path, wish, ALONE)
    try:
        await worker.start()
        assert worker.plan is not None
        return worker.plan, fitted(await StepMeasurement(worker, SECONDS_TO_MEASURE, show).run())
    finally:
        await worker.close()
        show(Stage(0, 0, ""))


def _load(load: Trace, num_left_out: int) -> Iterator[str]:
    yield f"{counted(len(load.requests), 'request')} in {load.seconds:,.0f} s."
    yield "                        half have at most      95 in 100     the longest"
    yield _lengths("tokens of a prompt", [r.row.input_length for r in load.requests])
    yield _lengths("of an answer", [r.row.output_length for r in load.requests])
    if num_left_out:
        yield f"{counted(num_left_out, 'request')} left out, too long for one conversation."
    if not load.knows_prefixes:
        yield "This trace does not say which prompts begin alike, so reuse cannot be judged."


def _lengths(name: str, lengths: list[int]) -> str:
    told = [*(percentile([*map(float, lengths)], part) for part in (50, 95)), max(lengths)]
    return f"  {name:22}" + "".join(f"{round(length):>17,}" for length in told)


def _forecast(advice: Advice) -> Iterator[str]:
    yield "                        first token p50 / p95      whole answer p50 / p95    reused"
    yield _row("as planned", advice.planned)
    yield _row("no shared prefixes", advice.unshared)
    yield from (_row(cure.name, cure.outcome) for cure in advice.cures)


def _row(name: str, found: Outcome) -> str:
    first = f"{_time(found.first_token_p50)} / {_time(found.first_token_p95)}"
    total = f"{_time(found.total_p50)} / {_time(found.total_p95)}"
    return f"  {name:22}{first:>22}{total:>28}{found.hit_rate:>10.1%}"


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else duration(seconds)


WALLS = {
    Wall.MEMORY: "Memory is the wall: with cells for all, answers would come sooner.",
    Wall.COMPUTE: "Speed is the wall, not memory: requests wait for the processor.",
    Wall.NONE: "Neither wall is hit: requests hardly wait for each other.",
}


def _decision(advice: Advice, knows_prefixes: bool) -> Iterator[str]:
    """The cures in the order in which they are worth trying."""
    planned = advice.planned
    yield WALLS[advice.wall]
    yield (
        f"At the busiest moment {counted(planned.most_at_once, 'request')} ran or waited, "
        f"{planned.most_running:,} in one step. How much sooner 95 in 100 answers are whole, in "
        "the order in which to try it:"
    )
    yield (
        f"  - Cells given one by one, as always: answers hold {planned.most_cells:,} at most, "
        f"{max(0, advice.paging_saves):.0%} fewer than a whole context for each would take."
    )
    if knows_prefixes:
        yield (
            f"  - Shared prefixes, as always: {_gain(advice.sharing_gain)}. Of all prompt tokens "
            f"{planned.hit_rate:.1%} need no computing, {advice.hit_rate_boundless:.1%} with "
            "memory for everything, none without sharing."
        )
    yield from (f"  - {cure.name}: {_gain(cure.gain)}." for cure in advice.cures)
    if advice.wall is not Wall.MEMORY and not any(cure.is_room for cure in advice.helpful):
        yield "More room for keys and values buys nothing here."
    if planned.suspensions:
        yield f"Answers are suspended {counted(planned.suspensions, 'time')}; none is lost."
    if planned.refused:
        yield f"{counted(planned.refused, 'request')} would be turned away."
    if planned.left:
        yield f"{counted(planned.left, 'request')} would be given up before the answer is whole."


def _gain(part: float) -> str:
    if not part:
        return "buys nothing"
    if abs(part) < WORTH_SAYING:
        return f"next to nothing ({part:+.0%})"
    # What takes longer is told by how many times as long it takes: that has no bound.
    return f"{part:.0%} sooner" if part > 0 else f"{1 - part:.2g} times as long"


BEYOND_THAT = {
    None: "",
    Wall.MEMORY: " Beyond that, memory is the wall that is hit first.",
    Wall.COMPUTE: " Beyond that, speed is the wall that is hit first.",
    Wall.NONE: "",
}


def _users(found: Found, goal: float) -> str:
    times = found.times
    in_time = f"95 in 100 waiting at most {goal:g} s for a first token"
    if times == 0:
        return (
            f"However slowly these requests come, more than 5 in 100 wait longer than {goal:g} s "
            "for a first token: so long are their prompts."
        )
    if times < 1:
        return (
            f"This load is too much: it would have to come {1 / times:,.2g} times as slowly to be "
            f"served with {in_time}."
        )
    if times >= FASTEST:
        return f"{FASTEST:g} times this load and more can be served with {in_time}."
    return f"{times:.2g} times this load can be served with {in_time}.{BEYOND_THAT[found.beyond]}"
