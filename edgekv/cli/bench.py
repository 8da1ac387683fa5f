"""`edgekv bench`: how fast this machine is with a model, and what bounds it."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import click
import msgspec

from edgekv import __version__
from edgekv.budget.sizes import counted, format_size
from edgekv.budget.wish import Wish
from edgekv.cli.options import budget_options
from edgekv.cli.progress import stage_line
from edgekv.core.plan import MemoryPlan, ModelFacts
from edgekv.service.measured import Measured, Writing, advice, ceiling
from edgekv.service.stages import Stage
from edgekv.tui.visible import visible

if TYPE_CHECKING:
    from edgekv.models.bandwidth import Bandwidth

SCHEMA = 1
BAR_LENGTH = 32


@dataclass(frozen=True, slots=True)
class Bench:
    """A machine with a model, measured."""

    plan: MemoryPlan
    facts: ModelFacts
    bandwidth: Bandwidth
    measured: Measured

    def ceiling(self, at_once: int) -> float | None:
        """Tokens a second. None where weights lie in a memory that was not measured."""
        if self.plan.choice.gpu_layers or not self.facts.active_bytes:
            return None
        return ceiling(self.bandwidth.bytes_per_second, self.facts.active_bytes, at_once)


@click.command()
@budget_options
@click.option(
    "--seconds",
    type=click.IntRange(1, 3600),
    default=60,
    show_default=True,
    metavar="N",
    help="About how long to measure.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with machine and versions.")
def command(path: str, wish: Wish, seconds: int, as_json: bool) -> None:
    """Measure how fast MODEL reads and writes on this machine, alone and side by side.

    It is opened with up to 16 slots and a small pool, unless the options say otherwise. The
    prompts are random tokens, and nothing of them is kept. Let nothing else compute meanwhile.
    """
    bench = asyncio.run(_bench(path, wish, seconds))
    if as_json:
        click.echo(msgspec.json.encode(document(bench)))
    else:
        click.echo("\n".join(visible(line) for line in report(bench)))


async def _bench(path: str, wish: Wish, seconds: int) -> Bench:
    from edgekv.models.bandwidth import memory_bandwidth
    from edgekv.service.devices import read_place
    from edgekv.service.measuring import Measurement, open_to_measure

    show = stage_line()
    show(Stage(0, 0, "reading memory"))
    place = await read_place()
    bandwidth = await asyncio.to_thread(memory_bandwidth, place.machine, place.processor, anew=True)
    show(Stage(0, 0, "loading"))
    try:
        worker = await open_to_measure(path, wish)
        try:
            measured = await Measurement(worker, seconds, show).run()
            assert worker.plan is not None
            assert worker.facts is not None
            return Bench(worker.plan, worker.facts, bandwidth, measured)
        finally:
            await worker.close()
    finally:
        show(Stage(0, 0, ""))


def report(bench: Bench) -> Iterator[str]:
    """What was measured, as lines of text for people."""
    model, choice, measured = bench.plan.model, bench.plan.choice, bench.measured
    yield f"{model.name}  ({model.architecture}, {format_size(model.file_bytes)}, {model.path})"
    yield f"{bench.bandwidth.processor}, {counted(choice.threads, 'thread')}"
    yield ""
    reading, reuse = measured.reading, measured.reuse
    yield f"  reading     {reading.tokens_per_second:,.1f} tokens/s, a prompt of {reading.tokens:,}"
    yield (
        f"  reuse       {reuse.reused_tokens:,} of {reuse.tokens:,} tokens: first token after "
        f"{reuse.again_seconds:.3f} s instead of {reuse.first_seconds:.3f} s"
    )
    yield f"  memory      {_memory(bench)}"
    yield ""
    yield "  at once   tokens/s      each"
    fastest = max(row.tokens_per_second for row in measured.writing)
    yield from (_row(row, fastest, bench.ceiling(row.at_once)) for row in measured.writing)
    yield ""
    yield advice(measured.writing)


def _memory(bench: Bench) -> str:
    speed = f"read at {bench.bandwidth.bytes_per_second / 1e9:.1f} GB/s"
    most = bench.ceiling(1)
    if most is None:
        return f"{speed}, that of a graphics device is not measured: no ceiling is known"
    assert bench.facts.active_bytes is not None
    needed = format_size(bench.facts.active_bytes)
    return f"{speed}, and a token needs {needed} of it: {most:,.1f} tokens/s at most"


def _row(row: Writing, fastest: float, most: float | None) -> str:
    speed, each = row.tokens_per_second, row.tokens_per_second / row.at_once
    bar = "#" * max(1, round(speed / fastest * BAR_LENGTH))
    line = f"  {row.at_once:>7,}   {speed:>8,.1f}  {each:>8,.1f}  {bar:{BAR_LENGTH}}"
    return line.rstrip() if most is None else f"{line}  {speed / most:.0%} of the ceiling"


def document(bench: Bench) -> dict[str, Any]:
    """The same for programs. Its fields are those of `docs/bench.md`."""
    model, bandwidth = bench.plan.model, bench.bandwidth
    cpu = next((device for device in bench.plan.devices if device.kind == "cpu"), None)
    return {
        "schema": SCHEMA,
        "model": {
            "name": model.name,
            "path": model.path,
            "architecture": model.architecture,
            "file_bytes": model.file_bytes,
            "active_bytes": bench.facts.active_bytes,
        },
        "machine": {
            "processor": bandwidth.processor,
            "architecture": platform.machine(),
            "system": platform.system(),
            "memory_bytes": cpu.total_bytes if cpu else None,
            "memory_bytes_per_second": round(bandwidth.bytes_per_second),
            "memory_measured": bandwidth.how,
        },
        "versions": {
            "edgekv": __version__,
            "llama_cpp_python": version("llama-cpp-python"),
            "python": platform.python_version(),
        },
        "choice": bench.plan.choice,
        "reading": bench.measured.reading,
        "reuse": bench.measured.reuse,
        "writing": [_as_row(row, bench.ceiling(row.at_once)) for row in bench.measured.writing],
        "advice": advice(bench.measured.writing),
    }


def _as_row(row: Writing, most: float | None) -> dict[str, Any]:
    return {
        "at_once": row.at_once,
        "tokens_per_second": row.tokens_per_second,
        "ceiling": most,
    }
