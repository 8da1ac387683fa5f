"""Many clients of three priorities on a small pool.

python -m bench.priorities --model models/SmolLM2-135M-Instruct.Q4_1.gguf
"""

from __future__ import annotations

import argparse
import asyncio
import random

from bench.clients import Answer, Client
from bench.report import report
from bench.serving import edgekv
from bench.words import words
from edgekv.service.messages import Message
from edgekv.traffic.advice import percentile

PRIORITIES = ("interactive", "normal", "batch")


async def run(client: Client, num_clients: int) -> dict[str, object]:
    draw = random.Random(1)

    async def one(number: int) -> tuple[str, Answer | Exception]:
        priority = PRIORITIES[number % len(PRIORITIES)]
        chat = [Message("user", words(draw.randint(20, 300), seed=number))]
        tokens = draw.randint(16, 96)
        return priority, await client.ask(chat, tokens, priority=priority, ignore_eos=True)

    answers = await asyncio.gather(*(one(number) for number in range(num_clients)))
    result = client.totals()
    for priority in PRIORITIES:
        waits = [a.first_token for p, a in answers if p == priority and isinstance(a, Answer)]
        result[f"{priority}_p95_first_token_seconds"] = (
            round(percentile(waits, 95), 2) if waits else None
        )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description="Three priorities on a small pool.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--cells", type=int, default=4096)
    parser.add_argument("--serve", action="append", default=[], help="an option for edgekv serve")
    options = parser.parse_args()
    pool = ("--slots", "16", "--cells", str(options.cells), "--ctx", "2048")
    with edgekv(options.model, *pool, *options.serve) as server:
        result = asyncio.run(run(Client(server.url), options.clients))
    report("priorities", options.model, result)


if __name__ == "__main__":
    main()
