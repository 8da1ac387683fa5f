"""The beginnings of two public traces at once, sent to any server in the same time.

Half of the requests share beginnings (Mooncake's conversations), half share none (Azure's). They
are shortened until a small model on two cores keeps up with most of them, and come within so many
seconds. `bench/traces/README.md` has their sources.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from bench.asking import Figures
from bench.shortening import shortened
from bench.token_client import Reply, TokenClient
from edgekv.core.request import Token
from edgekv.traffic.advice import percentile
from edgekv.traffic.trace import Trace, Traced, read_trace

FOLDER = Path(__file__).parent / "traces"
PARTS = {"mooncake_conversation.jsonl": 96, "azure2023_conversation.csv": 8}
"""Each file, and how many times shorter its prompts and answers get."""
FIRST_WORD = 100
"""Tokens below may have a meaning of their own."""


def mixed(num_requests: int, seconds: float) -> Trace:
    """The first requests of each trace, so many in all, in the order in which they come.

    Each part is stretched to `seconds`: that machines of another size than theirs answer them at
    all is worth more than their own time.
    """
    each = num_requests // len(PARTS)
    parts = [_part(FOLDER / name, shorter, each, seconds) for name, shorter in PARTS.items()]
    together = sorted((r for part in parts for r in part), key=lambda r: r.arrival_seconds)
    return Trace(tuple(replace(r, number=n) for n, r in enumerate(together)))


def _part(path: Path, shorter: int, num_requests: int, seconds: float) -> tuple[Traced, ...]:
    first = shortened(Trace(read_trace(path).requests[:num_requests]), shorter)
    return first.faster(first.seconds / seconds).requests


class Replay:
    """A trace in its own time, whatever a server makes of it."""

    def __init__(self, trace: Trace, num_words: int) -> None:
        """`num_words`: how many tokens to ask with; the vocabulary has as many from 100 on."""
        self._trace, self._num_words = trace, num_words
        self._client: TokenClient | None = None
        self._wall_seconds = 0.0

    async def run(self, url: str) -> None:
        started = time.perf_counter()
        async with aclosing(TokenClient(url)) as self._client, asyncio.TaskGroup() as group:
            for request in self._trace.requests:
                group.create_task(self._send(self._client, request, started))
        self._wall_seconds = time.perf_counter() - started

    async def _send(self, client: TokenClient, request: Traced, started: float) -> None:
        await asyncio.sleep(request.arrival_seconds - (time.perf_counter() - started))
        await client.ask(self.prompt(request), request.num_answer)

    def prompt(self, request: Traced) -> tuple[Token, ...]:
        """Blocks that are equal stay equal, and others differ, up to chance."""
        return tuple(Token(t % self._num_words + FIRST_WORD) for t in request.prompt)

    @property
    def replies(self) -> list[Reply]:
        return self._client.replies if self._client is not None else []

    def figures(self) -> Figures:
        if self._client is None:
            return {}
        firsts = [reply.first_token_seconds for reply in self.replies]
        return {
            "wall_seconds": round(self._wall_seconds, 2),
            "first_token_p50_seconds": round(percentile(firsts, 50), 2),
            "first_token_p95_seconds": round(percentile(firsts, 95), 2),
            **self._client.totals(),
        }

    async def necessary(self, model: str) -> int:
        return self._client.necessary_tokens() if self._client is not None else 0
