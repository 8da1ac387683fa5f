"""Does a simulated trace fare as it does for real? Hit rate and latency, predicted and measured.

The trace is scaled to the model and to the machine: lengths are divided, prefixes stay what they
are, and the requests come at such a pace that the machine works for the given part of the time.
Requests that were recorded at one moment come spread until the next one: clocks are rounded, those
of Mooncake's traces to 3 s, and as bursts whoever happens to be first would decide every figure.
Steps are measured before and after, in an engine that is planned as the server is. It computes on
one thread unless told otherwise: what the server's front end and the client take of another core is
no part of a step, and on two cores two threads would wait for it.

    python -m bench.replay --model models/SmolLM2-135M-Instruct.Q4_1.gguf \\
        --trace conversation_trace.jsonl

What to look at: `hit_rate_points`, which must be within 2 whatever else the machine does. The
others hold where nothing else computes: `engine_seconds_error`, the processor time of all steps,
which tells how good their prices are, whoever waited for whom; and the four `…_error` of latencies,
a part of what was measured, which should be within 0.15. Queues magnify: `predicted_…_between` says
what the prediction would be if the machine were 3 % faster or slower, which it may be without
anybody's doing. With the options as they are that is 6 %; with fewer and longer requests that keep
the machine busier it can be 40.
"""

from __future__ import annotations

import argparse
import asyncio
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, replace
from itertools import groupby, pairwise
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
from edgekv.traffic.advice import outcome_of, percentile
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
SPEEDS = (0.97, 1.0, 1.03)
LATENCIES = ("first_token_p50", "first_token_p95", "total_p50", "total_p95")


def spread(trace: Trace) -> Trace:
    """Requests of one moment come evenly from then until the next moment of which there are some;
    those of the last one in as much time as those before them.
    """
    at_once = [tuple(group) for _, group in groupby(trace.requests, lambda r: r.arrival_seconds)]
    starts = [group[0].arrival_seconds for group in at_once]
    gaps = [later - sooner for sooner, later in pairwise(starts)]
    gaps.append(gaps[-1] if gaps else 0.0)
    return Trace(
        tuple(
            replace(request, arrival_seconds=request.arrival_seconds + gap * place / len(group))
            for group, gap in zip(at_once, gaps, strict=True)
            for place, request in enumerate(group)
        )
    )


def paced(trace: Trace, room: Room, step_time: StepTime, busy: float, seconds: float) -> Trace:
    """As many requests as take about so long, at a pace that keeps the machine so busy."""
    work = simulate(trace.apart(), room, step_time).busy_seconds
    num_requests = max(FEWEST, int(len(trace.requests) * min(1.0, seconds * busy / work)))
    part = Trace(trace.requests[:num_requests])
    work = simulate(part.apart(), room, step_time).busy_seconds
    return part.faster(part.seconds / (work / busy))


async def replay(server: Server, trace: Trace) -> dict[str, float]:
    async with aclosing(TokenClient(server.url)) as client:
        # The first step of an engine finds its weights on disk, and no prediction knows of that.
        # From the last word down, as no prompt of a trace begins.
        await client.ask([Token(FIRST_WORD + PRIME - n) for n in range(1, WARM_UP_TOKENS)], 2)
    replayed, before = Replay(trace, PRIME), engine_seconds(server)
    await replayed.run(server.url)
    after = engine_seconds(server)
    figures = replayed.figures()
    if figures["finished"] != len(trace.requests):
        raise SystemExit(f"not every request was answered: {figures['errors']}")
    replies = replayed.replies
    firsts = [reply.first_token_seconds for reply in replies]
    totals = [reply.total_seconds for reply in replies]
    return {
        "hit_rate": sum(r.cached for r in replies) / sum(r.usage.prompt_tokens for r in replies),
        "engine_seconds": after - before,
        "first_token_p50": percentile(firsts, 50),
        "first_token_p95": percentile(firsts, 95),
        "total_p50": percentile(totals, 50),
        "total_p95": percentile(totals, 95),
    }


def engine_seconds(server: Server) -> float:
    """Of processor, since it started."""
    engine = server.engine()
    if engine is None:
        raise SystemExit("the engine died")
    times = engine.cpu_times()
    return float(times.user + times.system)


def prediction(trace: Trace, room: Room, step_time: StepTime, threads: int) -> dict[str, float]:
    run = simulate(trace, room, step_time)
    return asdict(outcome_of(run)) | {"engine_seconds": run.busy_seconds * threads}


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
    for key in ("engine_seconds", *LATENCIES):
        found[f"{key}_error"] = round(predicted[key] / real[key] - 1, 3)
    return found


def between(predictions: Sequence[Mapping[str, float]]) -> dict[str, object]:
    """The lowest and the highest of each latency."""
    found: dict[str, object] = {}
    for key in LATENCIES:
        values = [predicted[key] for predicted in predictions]
        found[f"predicted_{key}_between"] = [round(min(values), 4), round(max(values), 4)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="A simulated trace against the same for real.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--requests", type=int, default=200, help="at most")
    parser.add_argument("--shorter", type=int, default=192)
    parser.add_argument("--busy", type=float, default=0.4)
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--cells", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--flash-attention", choices=("on", "off"), default="on")
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
    whole = shortened(spread(read_trace(options.trace)), options.shorter)
    fitting = whole.no_longer_than(choice.context_length)
    with edgekv(options.model, *pool, "--disk-cache", "0") as server:
        plan = plan_of(server)
        if plan.choice != choice:
            raise SystemExit(f"the plan changed; run it again\n{choice}\n{plan.choice}")
        room = room_of(plan)
        first = Trace(fitting.requests[: options.requests])
        trace = paced(first, room, fitted(measured), options.busy, options.seconds)
        real = asyncio.run(replay(server, trace))
    measured += asyncio.run(measured_steps(options.model, wish))[1]
    step_time = fitted(measured)
    by_speed = [
        prediction(trace, room, step_time.times(speed), options.threads) for speed in SPEEDS
    ]
    predicted = by_speed[SPEEDS.index(1.0)]
    result: dict[str, object] = {
        "trace": options.trace.name,
        "requests": len(trace.requests),
        "seconds": round(trace.seconds, 1),
        "predicted_busy": round(predicted["busy"], 3),
        **compared(predicted, real),
        **between(by_speed),
        "step_seconds": asdict(step_time),
    }
    report("replay", options.model, result)


if __name__ == "__main__":
    main()
