"""What the log says when requests will have to wait, and when they no longer do."""

from __future__ import annotations

from edgekv.budget.sizes import counted
from edgekv.traffic.load import Forecast, Level, Wall


def warning(forecast: Forecast, slots: int) -> str:
    return f"{_beginning(forecast)}: {_figures(forecast)}. {_remedy(forecast.wall, slots)}"


def all_well(forecast: Forecast) -> str:
    return (
        f"The queue is short again: {counted(forecast.num_waiting, 'request')} wait, "
        f"{_duration(forecast.wait_seconds)} at most."
    )


def _beginning(forecast: Forecast) -> str:
    if forecast.level is Level.FULL:
        return "The queue is full, and requests are turned away"
    if forecast.full_in_seconds is not None and forecast.level is Level.FILLING:
        return f"At this rate the queue is full in about {_duration(forecast.full_in_seconds)}"
    return f"Requests wait about {_duration(forecast.wait_seconds)} for their start"


def _figures(forecast: Forecast) -> str:
    most = "" if forecast.most_waiting is None else f" of {forecast.most_waiting:,}"
    each = f", about {_duration(forecast.wait_seconds)} each" if forecast.wait_seconds else ""
    return (
        f"{forecast.num_waiting:,}{most} wait{each}; {_rate(forecast.come_per_second)} come "
        f"and {_rate(forecast.end_per_second)} end"
    )


def _remedy(wall: Wall, slots: int) -> str:
    if wall is Wall.MEMORY:
        return (
            "The wall is memory: slots are free, but the next request finds no cells. "
            "--kv-type q8_0 or more --memory makes room; 'edgekv advise' says how much that gains, "
            "from what --record wrote down."
        )
    at_work = "the slot is" if slots == 1 else f"all {slots:,} slots are"
    return (
        f"The wall is compute: {at_work} at work, so more memory buys nothing. Send fewer or "
        "shorter requests; 'edgekv advise' says whether other --slots help, from what --record "
        "wrote down."
    )


def _rate(per_second: float) -> str:
    """In the unit that makes a number of it that people can imagine."""
    if per_second >= 1 or not per_second:
        return f"{per_second:.3g} a second"
    return f"{60 * per_second:.2g} a minute"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return counted(round(seconds / 60), "minute")
