"""Many clients at once that share one long system prompt.

What it shows: whether all are answered, how long that takes, and how many prompt tokens were
computed against how many are necessary. Any OpenAI-style server can be measured:

    edgekv serve --slots 16 --cells 8192 --ctx 8192 &
    python bench/fan_out.py --url http://127.0.0.1:8642/v1 --model models/SmolLM2….gguf

The last line is one JSON document with everything printed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.necessary import necessary_tokens, token_lists
from bench.words import words
from edgekv import __version__
from edgekv.service.chat import Message


def chats(clients: int, system_words: int, question_words: int) -> list[list[Message]]:
    system = Message("system", words(system_words, seed=1))
    return [[system, Message("user", words(question_words, seed=100 + i))] for i in range(clients)]


@dataclass(frozen=True, slots=True)
class Answer:
    seconds: float
    prompt_tokens: int
    computed: int
    """Prompt tokens that were not reused, by the server's own account."""
    answer_tokens: int


async def ask(
    client: openai.AsyncOpenAI, model: str, chat: list[Message], tokens: int
) -> Answer | str:
    """One answer, or the words of the error."""
    started = time.perf_counter()
    messages: Any = [{"role": m.role, "content": m.content} for m in chat]
    try:
        answer = await client.chat.completions.create(
            model=model, messages=messages, max_tokens=tokens, temperature=0
        )
    except openai.APIError as error:
        return str(error)
    usage = answer.usage
    assert usage is not None, "a server that counts nothing cannot be measured"
    cached = usage.prompt_tokens_details and usage.prompt_tokens_details.cached_tokens
    return Answer(
        time.perf_counter() - started,
        usage.prompt_tokens,
        usage.prompt_tokens - (cached or 0),
        usage.completion_tokens,
    )


async def run(options: argparse.Namespace) -> dict[str, object]:
    conversations = chats(options.clients, options.system_words, options.question_words)
    necessary = necessary_tokens(await token_lists(options.model, conversations))
    client = openai.AsyncOpenAI(base_url=options.url, api_key="none", max_retries=0, timeout=600)
    served = (await client.models.list()).data[0].id
    started = time.perf_counter()
    answers = await asyncio.gather(
        *(ask(client, served, chat, options.tokens) for chat in conversations)
    )
    wall = time.perf_counter() - started
    finished = [answer for answer in answers if isinstance(answer, Answer)]
    return {
        "bench": "fan_out",
        "edgekv": __version__,
        "machine": f"{platform.machine()} {platform.processor()}".strip(),
        "clients": options.clients,
        "finished": len(finished),
        "errors": sorted({answer for answer in answers if isinstance(answer, str)}),
        "wall_seconds": round(wall, 2),
        "prompt_tokens": sum(a.prompt_tokens for a in finished),
        "prompt_tokens_computed": sum(a.computed for a in finished),
        "prompt_tokens_necessary": necessary,
        "answer_tokens": sum(a.answer_tokens for a in finished),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Many clients at once with one long system prompt."
    )
    parser.add_argument("--url", default="http://127.0.0.1:8642/v1")
    parser.add_argument("--model", required=True, help="the .gguf file, to count tokens with")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--system-words", type=int, default=1000)
    parser.add_argument("--question-words", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=48)
    result = asyncio.run(run(parser.parse_args()))
    for key, value in result.items():
        sys.stdout.write(f"{key:26} {value}\n")
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
