"""`edgekv advise`: which wall a load hits first on this machine, and which cure helps."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from edgekv.budget.wish import Wish
from edgekv.cli.advice_words import Found, report
from edgekv.cli.options import budget_options
from edgekv.cli.progress import stage_line
from edgekv.core.plan import MemoryPlan
from edgekv.errors import Unavailable
from edgekv.service.conduct import AS_USUAL
from edgekv.service.stages import Stage
from edgekv.traffic.advice import (
    FASTEST,
    Trials,
    advise,
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
