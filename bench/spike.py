"""More conversations at once than the pool can hold.

The same work is done twice: with cells for all, and with a pool for about three. All must
finish, and the ratio of the two throughputs is what the shortage costs.

    python -m bench.spike --model models/SmolLM2-135M-Instruct.Q4_1.gguf
"""

from __future__ import annotations

import argparse
import asyncio
import time

from bench.clients import Client
from bench.report import report
from bench.serving import edgekv
from bench.words import words
from edgekv.service.messages import Message


async def burst(
    client: Client, num_clients: int, prompt_words: int, tokens: int
) -> dict[str, object]:
    chats = [[Message("user", words(prompt_words, seed=i))] for i in range(num_clients)]
    started = time.perf_counter()
    await asyncio.gather(*(client.ask(chat, tokens, ignore_eos=True) for chat in chats))
    wall = time.perf_counter() - started
    totals = client.totals()
    assert isinstance(totals["answer_tokens"], int)
    speed = round(totals["answer_tokens"] / wall, 2)
    return {"wall_seconds": round(wall, 2), "tokens_per_second": speed, **totals}


def measure(options: argparse.Namespace, cells: int) -> dict[str, object]:
    pool = ("--slots", str(options.clients), "--cells", str(cells), "--ctx", "2048")
    with edgekv(options.model, *pool, *options.serve) as server:
        result = asyncio.run(
            burst(Client(server.url), options.clients, options.prompt_words, options.tokens)
        )
        metrics = server.metrics()
    suspensions = metrics.get("edgekv_suspensions_total")
    return result | {"suspensions": suspensions}


def main() -> None:
    parser = argparse.ArgumentParser(description="More conversations than cells.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--prompt-words", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--cells", type=int, default=2048)
    parser.add_argument("--serve", action="append", default=[], help="an option for edgekv serve")
    options = parser.parse_args()
    roomy = measure(options, cells=8192)
    tight = measure(options, cells=options.cells)
    assert isinstance(roomy["tokens_per_second"], float)
    assert isinstance(tight["tokens_per_second"], float)
    ratio = round(tight["tokens_per_second"] / roomy["tokens_per_second"], 3)
    result = {f"roomy_{k}": v for k, v in roomy.items()} | {
        f"tight_{k}": v for k, v in tight.items()
    }
    report("spike", options.model, {"cells": options.cells, **result, "throughput_ratio": ratio})


if __name__ == "__main__":
    main()
