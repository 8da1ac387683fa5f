"""What the server's own process costs: CPU seconds for 1,000 streamed tokens, at 32 streams.

    python -m bench.front_end models/SmolLM2-135M-Instruct.Q4_1.gguf

The engine and the clients are other processes and not counted; what is counted changes little when
the machine does other work. The last line is one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json

import httpx
import psutil

from bench.report import report
from bench.serving import Server, edgekv

MOST_SLOTS = 32
PATHS = {"chat": "/chat/completions", "messages": "/messages", "responses": "/responses"}


def body(kind: str, num_tokens: int, seed: int) -> dict[str, object]:
    """A stream of `num_tokens` tokens, unless the model ends it."""
    said = [{"role": "user", "content": "Tell a long story."}]
    asked: dict[str, object] = {"model": "local", "stream": True, "temperature": 1, "seed": seed}
    match kind:
        case "responses":
            return {**asked, "input": said, "max_output_tokens": num_tokens}
        case "messages":
            return {**asked, "messages": said, "max_tokens": num_tokens}
    return {
        **asked,
        "messages": said,
        "max_tokens": num_tokens,
        "ignore_eos": True,
        "stream_options": {"include_usage": True},
    }


async def stream(client: httpx.AsyncClient, kind: str, num_tokens: int, seed: int) -> int:
    """How many tokens came."""
    count = 0
    asked = body(kind, num_tokens, seed)
    async with client.stream("POST", PATHS[kind], json=asked) as response:
        async for line in response.aiter_lines():
            # Decoded for the one event only that has the count.
            if '_tokens":' in line and line.startswith("data: {"):
                count = tokens_in(json.loads(line.removeprefix("data: "))) or count
    return count


def tokens_in(event: dict[str, object]) -> int:
    found = event.get("response", event)
    usage = found.get("usage") if isinstance(found, dict) else None
    if not isinstance(usage, dict):
        return 0
    return int(usage.get("completion_tokens") or usage.get("output_tokens") or 0)


async def all_streams(server: Server, kind: str, num_streams: int, num_tokens: int) -> int:
    limits = httpx.Limits(max_connections=num_streams)
    async with httpx.AsyncClient(base_url=server.url, timeout=3600, limits=limits) as client:
        streams = (stream(client, kind, num_tokens, seed) for seed in range(num_streams))
        return sum(await asyncio.gather(*streams))


def cpu_seconds(server: Server) -> float:
    times = psutil.Process(server.pid).cpu_times()
    return float(times.user + times.system)


def measure(model: str, num_streams: int, num_tokens: int, kind: str = "chat") -> dict[str, object]:
    """`num_tokens` of each answer. More streams than MOST_SLOTS wait for each other."""
    slots = str(min(num_streams, MOST_SLOTS))
    with edgekv(model, "--slots", slots, "--ctx", "512", "--queue", str(num_streams)) as server:
        asyncio.run(all_streams(server, kind, 1, 2))  # the template's process is started
        before = cpu_seconds(server)
        came = asyncio.run(all_streams(server, kind, num_streams, num_tokens))
        spent = cpu_seconds(server) - before
    return {
        "kind": kind,
        "streams": num_streams,
        "tokens": came,
        "front_end_cpu_seconds": round(spent, 3),
        "cpu_seconds_per_1000_tokens": round(1000 * spent / came, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=100, help="of each answer")
    parser.add_argument("--kind", choices=sorted(PATHS), default="chat")
    given = parser.parse_args()
    result = measure(given.model, given.streams, given.tokens, given.kind)
    report("front_end", given.model, result)


if __name__ == "__main__":
    main()
