"""Does a simulated trace fare as it does for real? Hit rate and latency, predicted and measured.

The trace is scaled to a small model: lengths and times are divided, prefixes stay what they are.

    python -m bench.replay --model models/SmolLM2-135M-Instruct.Q4_1.gguf \\
        --trace conversation_trace.jsonl
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from dataclasses import asdict
from pathlib import Path

import msgspec
import openai

from bench.report import report
from bench.serving import Server, edgekv
from edgekv.core.plan import Choice
from edgekv.traffic.advice import outcome, percentile
from edgekv.traffic.simulation import Room
from edgekv.traffic.step_time import StepTime, fitted
from edgekv.traffic.trace import Row, Trace, Traced, read_trace

PRIME = 40_009
"""Below the vocabulary of every model used here. Block ids that differ by less than so much stay
different tokens."""


def scaled(trace: Trace, num_requests: int, shorter: int, faster: float) -> Trace:
    """The first requests, so many times shorter; blocks shrink with their prompts."""
    rows = [
        Row(
            timestamp=0,
            input_length=max(2, request.row.input_length // shorter),
            output_length=max(1, request.row.output_length // shorter),
            hash_ids=request.row.hash_ids,
            block_tokens=request.row.block_tokens // shorter,
        )
        for request in trace.requests
    ]
    requests = (
        Traced(old.number, old.arrival_seconds / faster, row)
        for old, row in zip(trace.requests, rows, strict=True)
    )
    return Trace(tuple(requests)[:num_requests])


async def replay(url: str, trace: Trace) -> dict[str, float]:
    client = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=3600)
    model = (await client.models.list()).data[0].id
    started = time.perf_counter()

    async def one(request: Traced) -> tuple[float, float, int, int]:
        await asyncio.sleep(request.arrival_seconds - (time.perf_counter() - started))
        sent, first, usage = time.perf_counter(), 0.0, None
        stream = await client.completions.create(
            model=model,
            prompt=[token % PRIME + 100 for token in request.prompt],
            max_tokens=request.row.output_length,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True},
        )
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].text and not first:
                first = time.perf_counter() - sent
            usage = chunk.usage or usage
        assert usage is not None
        details = usage.prompt_tokens_details
        reused = (details and details.cached_tokens) or 0
        total = time.perf_counter() - sent
        return first or total, total, reused, usage.prompt_tokens

    done = await asyncio.gather(*map(one, trace.requests))
    firsts, totals = [d[0] for d in done], [d[1] for d in done]
    return {
        "hit_rate": sum(d[2] for d in done) / sum(d[3] for d in done),
        "first_token_p50": percentile(firsts, 50),
        "first_token_p95": percentile(firsts, 95),
        "total_p50": percentile(totals, 50),
        "total_p95": percentile(totals, 95),
    }


def measured_steps(model: str, slots: int) -> StepTime:
    command = [sys.executable, "-m", "edgekv", "bench", model, "--json", "--slots", str(slots)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    alone, together = found["writing"][0], found["writing"][-1]
    return fitted(
        found["reading"]["tokens_per_second"],
        alone["tokens_per_second"],
        together["tokens_per_second"],
        together["at_once"],
    )


def room_of(server: Server) -> Room:
    with urllib.request.urlopen(server.url.removesuffix("/v1") + "/plan") as page:
        plan = json.loads(page.read())
    choice = msgspec.convert(plan["choice"], Choice)
    return Room(choice.slots, choice.kept, choice.cells, choice.context_length, choice.batch)


def main() -> None:
    parser = argparse.ArgumentParser(description="A simulated trace against the same for real.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--shorter", type=int, default=16)
    parser.add_argument("--faster", type=float, default=0.05)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--cells", type=int, default=16_384)
    options = parser.parse_args()
    trace = scaled(
        read_trace(options.trace), options.requests, options.shorter, options.faster
    ).no_longer_than(8192)
    step_time = measured_steps(options.model, options.slots)
    pool = ("--slots", str(options.slots), "--cells", str(options.cells), "--host-cache", "0")
    with edgekv(options.model, *pool) as server:
        room = room_of(server)
        real = asyncio.run(replay(server.url, trace))
    predicted = asdict(outcome(trace, room, step_time))
    result: dict[str, object] = {"requests": len(trace.requests), "step_time": asdict(step_time)}
    for key, value in real.items():
        result[key] = round(value, 4)
        result[f"predicted_{key}"] = round(predicted[key], 4)
    report("replay", options.model, result)


if __name__ == "__main__":
    main()
