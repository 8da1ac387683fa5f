"""A process that has a model open once for each way to keep keys and values."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

from edgekv.budget.kv_types import Pair
from edgekv.core.comparison import Compare, Compared, Likeness, OpenComparison, Passage
from edgekv.core.frames import Tokenize, Tokens
from edgekv.core.request import Segment, TextPrompt, Token
from edgekv.service.engine_client import EngineClient
from edgekv.service.lineup import Lineup
from edgekv.service.remote_workers import Workers

Hear: TypeAlias = Callable[[float], None]
"""Is told what part of a trial is measured."""


class Comparing:
    """The process that has a lineup open."""

    def __init__(self, client: EngineClient, pairs: Sequence[Pair]) -> None:
        self._client, self.pairs = client, tuple(pairs)

    async def tokenise(self, text: str) -> tuple[Token, ...]:
        prompt = TextPrompt((Segment(text, control=False),))
        reply = await self._client.call(lambda call: Tokenize(call, prompt))
        assert isinstance(reply, Tokens)
        return reply.tokens

    async def compare(
        self, passage: Passage, pairs: Sequence[Pair], on_progress: Hear
    ) -> tuple[tuple[Likeness, ...], ...]:
        candidates = tuple(map(self.pairs.index, pairs))
        reply = await self._client.call(
            lambda call: Compare(call, passage, candidates), on_progress
        )
        assert isinstance(reply, Compared)
        return reply.candidates


@asynccontextmanager
async def comparing(lineup: Lineup, workers: Workers) -> AsyncIterator[Comparing]:
    client = await EngineClient.start(command="comparison", workers=workers)
    candidates = tuple(lineup.candidates.values())
    try:
        await client.call(lambda call: OpenComparison(call, lineup.reference, candidates))
        yield Comparing(client, tuple(lineup.candidates))
    finally:
        await client.close()
