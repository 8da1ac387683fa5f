"""Several conversations taking turns on a pool that holds only some of them.

python -m bench.turns --model models/SmolLM2-135M-Instruct.Q4_1.gguf
"""

from __future__ import annotations

import argparse
import asyncio
import time

from bench.clients import Answer, Client
from bench.necessary import necessary_tokens
from bench.report import report
from bench.serving import edgekv
from bench.words import words
from edgekv.service.messages import Message


async def run(client: Client, conversations: int, turns: int, tokens: int) -> dict[str, object]:
    chats: list[list[Message]] = [[] for _ in range(conversations)]
    longest, started = 0, time.perf_counter()
    for turn in range(turns):
        for number, chat in enumerate(chats):
            chat.append(Message("user", words(60, seed=100 * number + turn)))
            answer = await client.ask(chat, tokens)
            if isinstance(answer, Answer):
                chat.append(Message("assistant", answer.text))
                longest = answer.prompt_tokens + answer.answer_tokens
            else:
                chat.pop()
    wall = round(time.perf_counter() - started, 2)
    return {"longest_conversation_tokens": longest, "wall_seconds": wall, **client.totals()}


def main() -> None:
    parser = argparse.ArgumentParser(description="More conversations than the pool holds.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--conversations", type=int, default=6)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--cells", type=int, default=2048)
    parser.add_argument("--serve", action="append", default=[], help="an option for edgekv serve")
    options = parser.parse_args()
    pool = ("--slots", "4", "--cells", str(options.cells), "--ctx", str(options.cells))
    with edgekv(options.model, *pool, *options.serve) as server:
        client = Client(server.url)
        result = asyncio.run(run(client, options.conversations, options.turns, options.tokens))
    necessary = asyncio.run(necessary_tokens(options.model, client.exchanges))
    result |= {"cells": options.cells, "prompt_tokens_necessary": necessary}
    report("turns", options.model, result)


if __name__ == "__main__":
    main()
