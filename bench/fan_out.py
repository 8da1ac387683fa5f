"""Many clients at once that share one long system prompt.

Are all answered, how long does it take, and how many prompt tokens were computed against how
many are necessary?

    python -m bench.fan_out --model models/SmolLM2-135M-Instruct.Q4_1.gguf
"""

from __future__ import annotations

import argparse
import asyncio
import time

from bench.clients import Client
from bench.necessary import necessary_tokens
from bench.report import report
from bench.serving import edgekv
from bench.words import words
from edgekv.service.messages import Message


def chats(clients: int, system_words: int, question_words: int) -> list[list[Message]]:
    system = Message("system", words(system_words, seed=1))
    return [[system, Message("user", words(question_words, seed=100 + i))] for i in range(clients)]


async def burst(
    client: Client, conversations: list[list[Message]], tokens: int
) -> dict[str, object]:
    started = time.perf_counter()
    await asyncio.gather(*(client.ask(chat, tokens) for chat in conversations))
    return {"wall_seconds": round(time.perf_counter() - started, 2), **client.totals()}


def main() -> None:
    parser = argparse.ArgumentParser(description="A burst of clients with one system prompt.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--url", help="measure this server instead of one of our own")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--cells", type=int, default=8192)
    parser.add_argument("--system-words", type=int, default=1000)
    parser.add_argument("--question-words", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=48)
    options = parser.parse_args()
    conversations = chats(options.clients, options.system_words, options.question_words)
    if options.url:
        client = Client(options.url)
        result = asyncio.run(burst(client, conversations, options.tokens))
    else:
        pool = ("--slots", str(options.clients), "--cells", str(options.cells))
        with edgekv(options.model, *pool) as server:
            client = Client(server.url)
            result = asyncio.run(burst(client, conversations, options.tokens))
    necessary = asyncio.run(necessary_tokens(options.model, client.exchanges))
    report("fan_out", options.model, result | {"prompt_tokens_necessary": necessary})


if __name__ == "__main__":
    main()
