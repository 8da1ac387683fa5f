"""Several conversations taking turns on a pool that holds only some of them.

python -m bench.turns --model models/SmolLM2-135M-Instruct.Q4_1.gguf
"""

from __future__ import annotations

import argparse
import asyncio

from bench.clients import Answer, Client
from bench.necessary import necessary_tokens, token_lists
from bench.report import report
from bench.serving import edgekv
from bench.words import words
from edgekv.service.messages import Message


async def run(
    url: str, conversations: int, turns: int, tokens: int
) -> tuple[list[Answer], list[list[Message]]]:
    """All answers, and the whole chat that each prompt was made of."""
    client = Client(url)
    chats: list[list[Message]] = [[] for _ in range(conversations)]
    answers, prompts = [], []
    for turn in range(turns):
        for number, chat in enumerate(chats):
            chat.append(Message("user", words(60, seed=100 * number + turn)))
            prompts.append(list(chat))
            answer = await client.ask(chat, tokens)
            assert isinstance(answer, Answer), answer
            answers.append(answer)
            chat.append(Message("assistant", answer.text))
    return answers, prompts


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
        answers, prompts = asyncio.run(
            run(server.url, options.conversations, options.turns, options.tokens)
        )
    # The answers are in the pool too, so the next prompt needs only what was added by the user.
    lists = asyncio.run(token_lists(options.model, prompts))
    generated = sum(a.answer_tokens for a in answers[: -options.conversations])
    necessary = necessary_tokens(lists) - generated
    computed = sum(a.computed for a in answers)
    result: dict[str, object] = {
        "longest_conversation_tokens": answers[-1].prompt_tokens + answers[-1].answer_tokens,
        "cells": options.cells,
        "prompt_tokens": sum(a.prompt_tokens for a in answers),
        "prompt_tokens_computed": computed,
        "prompt_tokens_necessary": necessary,
        "computed_ratio": round(computed / necessary, 3),
    }
    report("turns", options.model, result)


if __name__ == "__main__":
    main()
