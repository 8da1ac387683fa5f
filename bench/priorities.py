"""Many clients of three priorities on a small pool.

python -m bench.priorities --model models/SmolLM2-135M-Instruct.Q4_1.gguf
"""

from __future__ import annotations

import argparse
import asyncio
import random
from dataclasses import dataclass

from bench.clients import Answer, Client
from bench.report import report
from bench.serving import edgekv
from bench.words import words
from edgekv.core.request import Priority
from edgekv.service.messages import Message
from edgekv.traffic.advice import percentile

SLOTS, CELLS = 16, 4096


@dataclass(frozen=True, slots=True)
class Asked:
    number: int
    priority: Priority
    num_words: int
    num_tokens: int
    """Of the answer."""


def load(num_clients: int) -> list[Asked]:
    """Mixed lengths, a third of each priority."""
    draw, priorities = random.Random(1), list(Priority)
    return [
        Asked(number, priorities[number % 3], draw.randint(20, 300), draw.randint(16, 96))
        for number in range(num_clients)
    ]


async def run(client: Client, num_clients: int) -> dict[str, object]:
    async def one(asked: Asked) -> tuple[Priority, Answer | Exception]:
        chat = [Message("user", words(asked.num_words, seed=asked.number))]
        answer = client.ask(chat, asked.num_tokens, priority=asked.priority, ignore_eos=True)
        return asked.priority, await answer

    answers = await asyncio.gather(*map(one, load(num_clients)))
    result = client.totals()
    for priority in Priority:
        waits = [a.first_token for p, a in answers if p == priority and isinstance(a, Answer)]
        result[f"{priority}_p95_first_token_seconds"] = (
            round(percentile(waits, 95), 2) if waits else None
        )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description="Three priorities on a small pool.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--cells", type=int, default=CELLS)
    parser.add_argument("--serve", action="append", default=[], help="an option for edgekv serve")
    options = parser.parse_args()
    pool = ("--slots", str(SLOTS), "--cells", str(options.cells), "--ctx", "2048")
    with edgekv(options.model, *pool, *options.serve) as server:
        result = asyncio.run(run(Client(server.url), options.clients))
    report("priorities", options.model, result)


if __name__ == "__main__":
    main()
