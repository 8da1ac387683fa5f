"""`edgekv advise`: which wall a load hits first on this machine, and which cure helps."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from edgekv.budget.sizes import counted
from edgekv.budget.wish import Wish
from edgekv.cli.options import budget_options
from edgekv.core.plan import MemoryPlan
from edgekv.errors import Unavailable
from edgekv.traffic.advice import Advice, Outcome, Wall, advise, times_over
from edgekv.traffic.export import EXPORTS
from edgekv.traffic.simulation import Room
from edgekv.traffic.step_time import StepTime, fitted
from edgekv.traffic.trace import Trace, read_trace
from edgekv.tui.visible import visible

if TYPE_CHECKING:
    from edgekv.service.measured import Measured

SCHEMA = 1
MORE_HOST_BYTES = 1024**3
"""By how much a larger host cache is tried."""
SECONDS_TO_MEASURE = 8.0


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
    model is loaded for some seconds, to measure how fast it reads and writes on this machine.
    """
    whole, how = read_trace(trace), Asked(**asked)
    plan, step_time = asyncio.run(_measure(path, wish))
    if export is not None:
        click.echo(EXPORTS[export](plan), nl=False)
        return
    room = room_of(plan)
    fitting = whole.no_longer_than(room.context_length)
    load = Trace(fitting.requests[: how.requests]).faster(how.speed_up)
    if not load.requests:
        raise Unavailable(
            f"No request of the trace fits a conversation of {room.context_length:,} tokens; "
            "plan a longer --ctx, or take another trace."
        )
    per_cell = plan.model.kv_bytes_per_cell.get(plan.choice.kv_type_k) or 1
    advice = advise(load, room, step_time, host_step_cells=MORE_HOST_BYTES // per_cell)
    times = times_over(load, room, step_time, how.goal)
    if as_json:
        report = {
            "schema": SCHEMA,
            "requests": len(load.requests),
            "too_long": len(whole.requests) - len(fitting.requests),
            "advice": asdict(advice),
            "times_over": times,
            "first_token_goal_seconds": how.goal,
            "step_seconds": asdict(step_time),
        }
        click.echo(msgspec.json.encode(report))
        return
    lines = [*_load(whole, fitting, load), "", *_forecast(advice), "", *_decision(advice)]
    lines += ["", _users(times, how.goal)]
    click.echo("\n".join(visible(line) for line in lines))


def room_of(plan: MemoryPlan) -> Room:
    """What a plan gives a simulation to answer with."""
    choice = plan.choice
    per_cell = plan.model.kv_bytes_per_cell.get(choice.kv_type_k) or 1
    return Room(
        slots=choice.slots,
        kept=choice.kept,
        cells=choice.cells,
        context_length=choice.context_length,
        batch=choice.batch,
        host_cells=choice.host_cache_bytes // per_cell,
        shares=choice.kept > 0,
    )


async def _measure(path: str, wish: Wish) -> tuple[MemoryPlan, StepTime]:
    from edgekv.service.measuring import ALONE, Measurement
    from edgekv.service.worker import Worker

    worker = Worker(path, wish, ALONE)
    if sys.stderr.isatty():
        click.echo("edgekv: measuring how fast this machine reads and writes …", err=True)
    try:
        await worker.start()
        assert worker.plan is not None
        return worker.plan, _step_time(await Measurement(worker, SECONDS_TO_MEASURE).run())
    finally:
        await worker.close()


def _step_time(measured: Measured) -> StepTime:
    first, last = measured.writing[0], measured.writing[-1]
    reading, alone = measured.reading.tokens_per_second, first.tokens_per_second
    if last.at_once == 1:
        # With one slot nobody writes beside another, whatever that would take.
        return fitted(reading, alone, alone, 2)
    return fitted(reading, alone, last.tokens_per_second, last.at_once)


def _load(whole: Trace, fitting: Trace, load: Trace) -> Iterator[str]:
    lengths = [request.row.input_length for request in load.requests]
    answers = [request.row.output_length for request in load.requests]
    yield (
        f"{counted(len(load.requests), 'request')} in {load.seconds:,.0f} s: prompts of "
        f"{sum(lengths) / len(lengths):,.0f} tokens on average, at most {max(lengths):,}; answers "
        f"of {sum(answers) / len(answers):,.0f}, at most {max(answers):,}."
    )
    if left_out := len(whole.requests) - len(fitting.requests):
        yield f"{counted(left_out, 'request')} left out, too long for one conversation."
    if not load.knows_prefixes:
        yield "This trace does not say which prompts begin alike, so reuse cannot be judged."


def _forecast(advice: Advice) -> Iterator[str]:
    yield "                        first token p50 / p95      whole answer p50 / p95    reused"
    yield _row("as planned", advice.planned)
    yield from (_row(cure.name, cure.outcome) for cure in advice.cures)


def _row(name: str, found: Outcome) -> str:
    first = f"{found.first_token_p50:,.1f} / {found.first_token_p95:,.1f} s"
    total = f"{found.total_p50:,.1f} / {found.total_p95:,.1f} s"
    return f"  {name:22}{first:>22}{total:>28}{found.hit_rate:>10.1%}"


WALLS = {
    Wall.MEMORY: "Memory is the wall: with cells for all, answers would come sooner.",
    Wall.COMPUTE: "Speed is the wall, not memory: requests wait for the processor.",
    Wall.NONE: "Neither wall is hit: requests hardly wait for each other.",
}


def _decision(advice: Advice) -> Iterator[str]:
    """The cures in the order in which they are worth trying."""
    planned = advice.planned
    yield WALLS[advice.wall]
    yield (
        f"  1. Cells given one by one: at the busiest moment {planned.most_cells:,} are in use, "
        f"{advice.paging_saves:.0%} fewer than a whole context for each request would take."
    )
    yield (
        f"  2. Shared prefixes: {planned.hit_rate:.1%} of all prompt tokens need no computing, "
        f"{advice.hit_rate_boundless:.1%} with memory for everything."
    )
    helpful = advice.helpful
    if not helpful:
        yield "  3. More KV room buys nothing here, and neither do more or fewer slots."
    for number, cure in enumerate(helpful, start=3):
        yield (
            f"  {number}. {cure.name}: 95 in 100 answers are whole within "
            f"{cure.outcome.total_p95:,.1f} s, {cure.gain:.0%} sooner."
        )
    if planned.suspensions:
        yield f"  Answers are suspended {counted(planned.suspensions, 'time')}; none is lost."
    if planned.refused:
        yield f"  {counted(planned.refused, 'request')} would be turned away."


def _users(times: float, goal: float) -> str:
    within = f"95 in 100 waiting at most {goal:g} s for a first token"
    if times == 0:
        return f"Even a sixteenth of this load cannot be served with {within}."
    if times >= 16:
        return f"Sixteen times this load and more can be served with {within}."
    return f"{times:.2g} times this load can be served with {within}."
