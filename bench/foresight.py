"""What knowing the length of answers beforehand is worth: admission by four guesses, simulated.

    python -m bench.foresight --trace conversation_trace.jsonl --cells 8192

`learned` is what the engine does; `max_tokens` reserves all that an answer may get, `constant`
always the first guess, `oracle` exactly what the answer will take. No model is needed: the steps
take what they took with the starter model.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from unittest.mock import patch

from msgspec import structs

from edgekv.engine.answer_lengths import FIRST_GUESS, AnswerLengths
from edgekv.traffic.advice import percentile
from edgekv.traffic.room import Room
from edgekv.traffic.simulation import Run, simulate
from edgekv.traffic.step_time import StepTime
from edgekv.traffic.trace import Trace, read_trace

STEPS = {
    "flash": StepTime(0.0071, 0.0083, 0.0098, 1.11e-5, 2.2e-6, 4.5e-7, 8.4e-7),
    "plain": StepTime(0.0006, 0.0082, 0.0142, 0.0, 0.0, 4.8e-6, 2.7e-6),
    "wide": StepTime(0.02, 0.0005, 0.0005, 1e-8, 1e-8),
}
"""SmolLM2-135M Q4_1 on one thread, with and without flash attention (bench/LOG.md), and what could
be a graphics device: there a step costs as much as forty answers, so many at once are worth it."""


class Everything(AnswerLengths):
    """As long as is allowed."""

    def remaining(self, num_generated: int) -> int:
        return sys.maxsize


class Constant(AnswerLengths):
    def remaining(self, num_generated: int) -> int:
        return FIRST_GUESS


GUESSES: Sequence[tuple[str, type[AnswerLengths]]] = (
    ("max_tokens", Everything),
    ("constant", Constant),
    ("learned", AnswerLengths),
    ("oracle", Everything),
)


def allowed(trace: Trace, most: int | None) -> Trace:
    """Every answer may get so long; None: exactly as long as it gets."""
    rows = (
        (traced, structs.replace(traced.row, max_tokens=max(most or 0, traced.num_answer)))
        for traced in trace.requests
    )
    return Trace(tuple(replace(traced, row=row) for traced, row in rows))


def paced(trace: Trace, room: Room, steps: StepTime, load: float) -> Trace:
    """At a pace at which alone answers would keep the machine busy for such a part of the time."""
    alone = simulate(trace.apart(), room, steps).busy_seconds
    return trace.faster(trace.seconds / (alone / load))


def figures(run: Run) -> dict[str, float]:
    first = [answer.first_token for answer in run.answered]
    total = [answer.total for answer in run.answered]
    written = sum(answer.num_written for answer in run.answered)
    return {
        "tokens_per_second": round(written / run.seconds, 2),
        "first_token_p50": round(percentile(first, 50), 2),
        "first_token_p95": round(percentile(first, 95), 2),
        "total_p50": round(percentile(total, 50), 2),
        "total_p95": round(percentile(total, 95), 2),
        "hit_rate": round(run.hit_rate, 4),
        "suspensions": run.num_suspensions,
        "recomputed": run.num_recomputed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="What foreseeing the length of answers is worth.")
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--requests", type=int, default=150)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--cells", type=int, default=8192)
    parser.add_argument("--host-cells", type=int, default=8192)
    parser.add_argument("--max-tokens", type=int, default=1024)
    parser.add_argument("--steps", choices=STEPS, default="flash")
    parser.add_argument("--max-gap", type=float, default=0.25)
    parser.add_argument("--load", type=float, default=1.2)
    options = parser.parse_args()
    room = Room(
        slots=options.slots,
        kept=options.slots,
        cells=options.cells,
        context_length=options.cells,
        batch=128,
        host_cells=options.host_cells,
        max_gap_seconds=options.max_gap,
    )
    fitting = read_trace(options.trace).no_longer_than(options.cells)
    steps = STEPS[options.steps]
    trace = paced(Trace(fitting.requests[: options.requests]), room, steps, options.load)
    found = {}
    for name, guess in GUESSES:
        asked = allowed(trace, None if name == "oracle" else options.max_tokens)
        with patch("edgekv.engine.scheduler.AnswerLengths", guess):
            found[name] = figures(simulate(asked, room, steps))
        sys.stdout.write(f"{name:12} {found[name]}\n")
    result = {
        "bench": "foresight",
        "trace": options.trace.name,
        "requests": len(trace.requests),
        "steps": options.steps,
        "seconds": round(trace.seconds, 1),
        "room": asdict(room),
        **found,
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
