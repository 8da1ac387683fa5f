"""What `edgekv advise` says of a load: lengths, forecast, wall, cures, how many users fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from edgekv.budget.sizes import counted
from edgekv.cli.progress import duration
from edgekv.traffic.advice import FASTEST, WORTH_SAYING, Advice, Outcome, percentile
from edgekv.traffic.load import Wall
from edgekv.traffic.trace import Trace


@dataclass(frozen=True, slots=True)
class Found:
    """What the simulations say."""

    advice: Advice
    times: float
    """As `times_over`."""
    beyond: Wall | None
    """What bounds a load beyond that; None where it is known already."""


def report(load: Trace, found: Found, num_left_out: int, goal: float) -> Iterator[str]:
    """What was found, as lines of text for people."""
    yield from _load(load, num_left_out)
    yield ""
    yield from _forecast(found.advice)
    yield ""
    yield from _decision(found.advice, load.knows_prefixes)
    yield ""
    yield _users(found, goal)


def _load(load: Trace, num_left_out: int) -> Iterator[str]:
    yield f"{counted(len(load.requests), 'request')} in {load.seconds:,.0f} s."
    yield f"{'':24}{'half have at most':>17}{'95 in 100':>17}{'the longest':>17}"
    yield _lengths("tokens of a prompt", [r.row.input_length for r in load.requests])
    yield _lengths("of an answer", [r.row.output_length for r in load.requests])
    recorded = [r.row for r in load.requests if r.row.reused is not None]
    if recorded:
        part = sum(r.reused or 0 for r in recorded) / sum(r.input_length for r in recorded)
        yield f"When it was recorded, {part:.1%} of these prompts' tokens needed no computing."
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
