"""The next answer of a long conversation after `kill -9` and a restart, against a cold start.

    python -m bench.restart --model models/SmolLM2-135M-Instruct.Q4_1.gguf

What was written to disk while the server was idle is all that the second server has.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from bench.clients import Answer, Client
from bench.report import report
from bench.serving import Server, edgekv, kill
from bench.words import words
from edgekv.service.messages import Message

DISK = 'edgekv_store_bytes{place="disk"}'
SECONDS_OF_REST = 1.0
"""The disk is as full as it gets once it has not grown for so long."""


async def ask(server: Server, chat: list[Message], tokens: int) -> Answer:
    answer = await Client(server.url).ask(chat, tokens)
    assert isinstance(answer, Answer), answer
    return answer


async def when_written(server: Server, chat: list[Message]) -> float:
    """Bytes on disk once the idle server has written what it has."""
    written, before = 0.0, -1.0
    while written != before:
        before = written
        await asyncio.sleep(SECONDS_OF_REST)
        # A snapshot comes with a step, so an idle server is asked for one token.
        await ask(server, chat, 1)
        written = server.metrics()[DISK]
    return written


async def measure(model: str, num_words: int, tokens: int) -> dict[str, object]:
    size = ("--ctx", "6144", "--slots", "2")
    chat = [Message("user", words(num_words, seed=1))]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with edgekv(model, *size, home=home) as server:
            first = await ask(server, chat, tokens)
            written = await when_written(server, [Message("user", "hi")])
            kill(server)
        chat += [Message("assistant", first.text), Message("user", words(20, seed=2))]
        with edgekv(model, *size, home=home) as server:
            warm = await ask(server, chat, tokens)
    with edgekv(model, *size) as server:
        cold = await ask(server, chat, tokens)
    return {
        "prompt_tokens": warm.prompt_tokens,
        "disk_bytes": int(written),
        "computed_cold": cold.computed,
        "computed_warm": warm.computed,
        "first_token_seconds_cold": round(cold.first_token, 2),
        "first_token_seconds_warm": round(warm.first_token, 2),
        "times_sooner": round(cold.first_token / warm.first_token, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="A long conversation after kill -9.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--words", type=int, default=3700, help="of the conversation so far")
    parser.add_argument("--tokens", type=int, default=16)
    options = parser.parse_args()
    report(
        "restart", options.model, asyncio.run(measure(options.model, options.words, options.tokens))
    )


if __name__ == "__main__":
    main()
