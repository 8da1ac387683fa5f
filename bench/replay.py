"""Does a simulated trace fare as it does for real? Hit rate and latency, predicted and measured.

The trace is scaled to the model and to the machine: lengths are divided, prefixes stay what they
are, and the requests come at such a pace that the machine works for the given part of the time.
Steps are measured before and after, in an engine that is planned as the server is. It computes on
one thread unless told otherwise: what the server's front end and the client take of another core is
no part of a step, and on two cores two threads would wait for it.

    python -m bench.replay --model models/SmolLM2-135M-Instruct.Q4_1.gguf \\
        --trace conversation_trace.jsonl

What to look at: `hit_rate_points`, which must be within 2 whatever else the machine does, and the
four `…_error`, a part of what was measured, within 0.15 where nothing else computes.
"""

from __future__ import annotations

import argparse
import asyncio
import urllib.request
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path

import msgspec

from bench.mixed_trace import FIRST_WORD, Replay
from bench.report import report
from bench.serving import Server, edgekv
from bench.shortening import shortened
from bench.token_client import TokenClient
from edgekv.budget.wish import Wish
from edgekv.core.plan import Choice, MemoryPlan
from edgekv.core.request import Token
from edgekv.service.measuring import ALONE
from edgekv.service.step_times import StepMeasurement
from edgekv.service.worker import Worker
from edgekv.traffic.advice import outcome, percentile
from edgekv.traffic.room import Room, room_of
from edgekv.traffic.simulation import simulate
from edgekv.traffic.step_time import StepTime, Work, fitted
from edgekv.traffic.trace import Trace, read_trace

SECONDS_TO_MEASURE = 16.0
PRIME = 40_009
"""Below the vocabulary of every model used here. Block ids that differ by less than so much stay
different tokens."""
WARM_UP_TOKENS = 64
FEWEST = 20
"""Requests: fewer have no 95th percentile."""


def paced(trace: Trace, room: Room, step_time: StepTime, busy: float, seconds: float) -> Trace:
    """As many requests as take about so long, at a pace that keeps the machine so busy."""
    work = simulate(trace.apart(), room, step_time).busy_seconds
    num_requests = max(FEWEST, int(len(trace.requests) * min(1.0, seconds * busy / work)))
    part = Trace(trace.requests[:num_requests])
    work = simulate(part.apart(), room, step_time).busy_seconds
    return part.faster(part.seconds / (work / busy))


async def replay(url: str, trace: Trace) -> dict[str, float]:
    async with aclosing(TokenClient(url)) as client:
        # The first step of an engine finds its weights on disk, and no prediction knows of that.
        # From the last word down, as no prompt of a trace begins.
        await client.ask([Token(FIRST_WORD + PRIME - n) for n in range(1, WARM_UP_TOKENS)], 2)
    replayed = Replay(trace, PRIME)
    await replayed.run(url)
    figures = replayed.figures()
    if figures["finished"] != len(trace.requests):
        raise SystemExit(f"not every request was answered: {figures['errors']}")
    replies = replayed.replies
    firsts = [reply.first_token_seconds for reply in replies]
    totals = [reply.total_seconds for reply in replies]
    return {
        "hit_rate": sum(r.cached for r in replies) / sum(r.usage.prompt_tokens for r in replies),
        "first_token_p50": percentile(firsts, 50),
        "first_token_p95": percentile(firsts, 95),
        "total_p50": percentile(totals, 50),
        "total_p95": percentile(totals, 95),
    }


async def measured_steps(model: str, wish: Wish) -> tuple[Choice, list[tuple[Work, float]]]:
    worker = Worker(model, wish, ALONE)
    try:
        await worker.start()
        assert worker.plan is not None
        return worker.plan.choice, list(await StepMeasurement(worker, SECONDS_TO_MEASURE).run())
    finally:
        await worker.close()


def plan_of(server: Server) -> MemoryPlan:
    with urllib.request.urlopen(server.root + "/plan") as page:
        return msgspec.json.decode(page.read(), type=MemoryPlan)


def compared(predicted: Mapping[str, float], real: Mapping[str, float]) -> dict[str, object]:
    """Each figure twice, and how far the prediction is off."""
    found: dict[str, object] = {}
    for key, value in real.items():
        found[key], found[f"predicted_{key}"] = round(value, 4), round(predicted[key], 4)
    found["hit_rate_points"] = round(100 * (predicted["hit_rate"] - real["hit_rate"]), 2)
    for key in ("first_token_p50", "first_token_p95", "total_p50", "total_p95"):
        found[f"{key}_error"] = round(predicted[key] / real[key] - 1, 3)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="A simulated trace against the same for real.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--requests", type=int, default=200, help="at most")
    parser.add_argument("--shorter", type=int, default=48)
    parser.add_argument("--busy", type=float, default=0.6)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--cells", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--flash-attention", choices=("on", "off"), default="off")
    options = parser.parse_args()
    wish = Wish(
        context_length=options.cells,
        slots=options.slots,
        cells=options.cells,
        kv_type_k="f16",
        kv_type_v="f16",
        host_cache_bytes=0,
        threads=options.threads,
        flash_attention=options.flash_attention == "on",
    )
    pool = [
        *("--ctx", str(options.cells)),
        *("--slots", str(options.slots)),
        *("--cells", str(options.cells)),
        *("--kv-type", "f16"),
        *("--host-cache", "0"),
        *("--threads", str(options.threads)),
        "--no-embeddings",
        *("--flash-attention", options.flash_attention),
    ]
    choice, measured = asyncio.run(measured_steps(options.model, wish))
    whole = shortened(read_trace(options.trace), options.shorter)
    fitting = whole.no_longer_than(choice.context_length)
    with edgekv(options.model, *pool, "--disk-cache", "0") as server:
        plan = plan_of(server)
        if plan.choice != choice:
            raise SystemExit(f"the plan changed; run it again\n{choice}\n{plan.choice}")
        room = room_of(plan)
        first = Trace(fitting.requests[: options.requests])
        trace = paced(first, room, fitted(measured), options.busy, options.seconds)
        real = asyncio.run(replay(server.url, trace))
    measured += asyncio.run(measured_steps(options.model, wish))[1]
    step_time = fitted(measured)
    predicted = asdict(outcome(trace, room, step_time))
    result: dict[str, object] = {
        "trace": options.trace.name,
        "requests": len(trace.requests),
        "seconds": round(trace.seconds, 1),
        "predicted_busy": round(predicted["busy"], 3),
        **compared(predicted, real),
        "step_seconds": asdict(step_time),
    }
    report("replay", options.model, result)


if __name__ == "__main__":
    main()
