"""One client reads an answer while another sends a very long prompt.

The worst gap between the first one's tokens, and what the second one's prompt costs more than
alone.

    python -m bench.stall --model models/SmolLM2-135M-Instruct.Q4_1.gguf
"""

from __future__ import annotations

import argparse
import asyncio

from bench.clients import Answer, Client
from bench.report import report
from bench.serving import edgekv
from bench.words import words
from edgekv.service.messages import Message


async def run(client: Client, prompt_words: int, tokens: int) -> dict[str, object]:
    """Without the figures where one of the two got no answer."""
    alone = await client.ask([Message("user", words(prompt_words, seed=1))], 1)
    reader = asyncio.create_task(
        client.ask([Message("user", "Tell a long story.")], tokens, ignore_eos=True)
    )
    await asyncio.sleep(1)
    beside = await client.ask([Message("user", words(prompt_words, seed=2))], 1)
    read = await reader
    if not (isinstance(alone, Answer) and isinstance(beside, Answer) and isinstance(read, Answer)):
        return client.totals()
    return {
        "long_prompt_tokens": beside.prompt_tokens,
        "prefill_alone_seconds": round(alone.first_token, 2),
        "prefill_beside_seconds": round(beside.first_token, 2),
        "prefill_ratio": round(beside.first_token / alone.first_token, 3),
        "worst_gap_seconds": round(read.worst_gap, 3),
        **client.totals(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="A long prompt beside an answer.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--prompt-words", type=int, default=3000)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--serve", action="append", default=[], help="an option for edgekv serve")
    options = parser.parse_args()
    with edgekv(options.model, "--ctx", "8192", "--slots", "4", *options.serve) as server:
        asyncio.run(Client(server.url).ask([Message("user", "hi")], 8))
        result = asyncio.run(run(Client(server.url), options.prompt_words, options.tokens))
    report("stall", options.model, result)


if __name__ == "__main__":
    main()
