"""Kept results in words: a cell for each server, tables for pages, one sentence of where it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Figures = dict[str, Any]
"""What one server did in one load: numbers are {"median", "low", "high"}, errors a list."""


def told(number: Any, digits: str = ",.4g") -> str:
    """A median, with its range where there was more than one round and they differ."""
    if number is None:
        return "not told"
    median, low, high = number["median"], number["low"], number["high"]
    if low == high:
        return f"{median:{digits}}"
    return f"{median:{digits}} ({low:{digits}} to {high:{digits}})"


def median(number: Any) -> float | None:
    return None if number is None else float(number["median"])


def plain(number: Any, digits: str = ",.3g") -> str:
    """A median alone."""
    return "?" if number is None else f"{number['median']:{digits}}"


def finished(figures: Figures) -> bool:
    """Whether every request had an answer, in every round."""
    asked, done = figures.get("asked"), figures["finished"]
    return asked is not None and asked["high"] == done["low"]


def _unfinished(figures: Figures) -> str:
    asked = figures.get("asked")
    if asked is None:
        return "did not start"
    return f"**{figures['finished']['low']} of {asked['high']} finished**"


def computed(figures: Figures) -> str:
    """Prompt tokens computed, against those that had to be."""
    if figures.get("prompt_tokens_computed") is None:
        return "not told"
    return f"{plain(figures['prompt_tokens_computed'], ',.0f')} tokens computed"


def _seconds(figures: Figures) -> str:
    return f"{plain(figures['wall_seconds'])} s, {computed(figures)}"


def _spike(figures: Figures) -> str:
    return f"{plain(figures['tokens_per_second'])} tokens/s"


def _stall(figures: Figures) -> str:
    gap, ratio = plain(figures["worst_gap_seconds"]), plain(figures["prefill_ratio"])
    return f"{gap} s; the prompt took {ratio} times as long as alone"


def _decode(figures: Figures) -> str:
    """No speed where answers did not all run together, as with fewer slots."""
    speeds = [figures[f"tokens_per_second_at_{n}"] for n in (1, 4, 16)]
    words = " / ".join(plain(s) if s else "-" for s in speeds) + " tokens/s"
    return words if all(speeds) else f"{words} (-: some waited for others)"


def _priorities(figures: Figures) -> str:
    waits = (plain(figures[f"{p}_p95_first_token_seconds"]) for p in ("interactive", "batch"))
    return "{} s against {} s".format(*waits)


def _trace(figures: Figures) -> str:
    waits = (plain(figures[f"first_token_p{p}_seconds"]) for p in (50, 95))
    return "{} s and {} s, ".format(*waits) + computed(figures)


CELLS: dict[str, Callable[[Figures], str]] = {
    "fan_out": _seconds,
    "spike": _spike,
    "turns": _seconds,
    "stall": _stall,
    "decode": _decode,
    "priorities": _priorities,
    "trace": _trace,
}
"""The loads of the overview: those in which every server takes part as it is usually run."""
ASKS = {
    "fan_out": "until all are answered",
    "spike": "speed of all",
    "turns": "until all are answered",
    "stall": "worst gap in the answer",
    "decode": "speed of all",
    "priorities": "first token, interactive against batch, 95 in 100",
    "trace": "first token, 50 and 95 in 100",
}


def cell(name: str, figures: Figures, *, quiet: bool) -> str:
    """Without times and speeds where other work ran beside the load: they would mislead."""
    if not finished(figures):
        return _unfinished(figures)
    return CELLS[name](figures) if quiet else f"all finished, {computed(figures)}"


def overview(loads: dict[str, Any]) -> str:
    """A row for each load that was measured, a column for each server."""
    rows = [name for name in CELLS if name in loads]
    servers = list(dict.fromkeys(s for name in rows for s in loads[name]["servers"]))
    lines = ["| load | " + " | ".join(servers) + " |", "|---|" + "---|" * len(servers)]
    for name in rows:
        load = loads[name]
        cells = [
            cell(name, load["servers"][s], quiet=load["quiet"])
            if s in load["servers"]
            else "not measured"
            for s in servers
        ]
        head = f"{load['what']}: {ASKS[name]}{_of_what(name, load)}"
        lines.append(f"| {head} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n\n" + surroundings(loads)


def _of_what(name: str, load: dict[str, Any]) -> str:
    """What could have been reached: the fewest tokens, or llama.cpp's own speed."""
    if name == "decode":
        return f" ({' / '.join(f'{v:.3g}' for v in load['ceiling'].values())} at most)"
    figures = load["servers"]["EdgeKV"]
    if name in {"fan_out", "turns", "trace"}:
        return f" ({plain(figures['prompt_tokens_necessary'], ',.0f')} tokens are necessary)"
    return ""


def surroundings(loads: dict[str, Any]) -> str:
    """Where, when, and whether the machine did anything else."""
    one = next(iter(loads.values()))
    days = sorted({load["day"] for load in loads.values()})
    busy = [name for name, load in loads.items() if not load["quiet"]]
    machine = one["machine"]
    words = (
        f"{machine['processor']}, {machine['cpus']} cores, {one['model']}, "
        f"llama-cpp-python {one['llama_cpp_python']} and the same llama.cpp in all servers; "
        f"{' to '.join(dict.fromkeys((days[0], days[-1])))}; medians."
    )
    if busy:
        words += f" **Other work ran beside {', '.join(busy)}**, of which only counts are shown."
    return words


def details(load: dict[str, Any]) -> str:
    """Every figure of every server in one load."""
    names = list(load["servers"])
    keys = dict.fromkeys(key for figures in load["servers"].values() for key in figures)
    lines = ["| | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for key in keys:
        values = [_value(load["servers"][name].get(key)) for name in names]
        lines.append(f"| {key.replace('_', ' ')} | " + " | ".join(values) + " |")
    if not load["quiet"]:
        lines += ["", "Other work ran beside it, so times and speeds say nothing."]
    return "\n".join(lines)


def _value(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return f"`{value}`"
        case list():
            return "; ".join(text.replace("|", "/").replace("\n", " ")[:160] for text in value)
    return told(value)


def tells(figures: Figures) -> bool:
    """Whether a server says what it computed, as far as it answered."""
    return not finished(figures) or figures.get("prompt_tokens_computed") is not None


def restart(load: dict[str, Any]) -> str:
    """What was computed and, on a quiet machine, what that saved."""
    counts = (
        f"With {load['disk_bytes'] / 1e6:,.0f} MB on disk, a conversation of "
        f"{load['prompt_tokens']:,} tokens computed {load['computed_warm']:,} of them after "
        f"`kill -9` and a new start ({load['computed_cold']:,} on a cold server)"
    )
    if not load["quiet"]:
        return counts + "."
    return counts + (
        f"; its first token came after {load['first_token_seconds_warm']:.3g} s instead of "
        f"{load['first_token_seconds_cold']:.3g} s."
    )
