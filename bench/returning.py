"""Conversations that come back: how many does a server still hold when each is asked again?

All are asked one after the other, and then again from the last to the first. One is held if its
whole prompt but the last token needs no computing the second time. The second question adds no
token, so it takes room from none that is held. Tokens are counted by the servers' own accounts.
"""

from __future__ import annotations

import random
from contextlib import aclosing
from dataclasses import dataclass

from bench.asking import Figures
from bench.mixed_trace import FIRST_WORD
from bench.token_client import Reply, TokenClient
from edgekv.core.request import Token

MIB, GIB = 1024**2, 1024**3


@dataclass(frozen=True, slots=True)
class Conversations:
    number: int
    length: int
    """Tokens of each."""
    num_words: int
    """How many tokens to ask with; the vocabulary has as many from 100 on."""

    def prompts(self) -> list[tuple[Token, ...]]:
        """The first token of each is one that no other begins with."""
        draw = random.Random(1)
        rest = self.length - 1
        return [
            (
                Token(FIRST_WORD + one),
                *(Token(FIRST_WORD + draw.randrange(self.num_words)) for _ in range(rest)),
            )
            for one in range(self.number)
        ]


class Returning:
    def __init__(self, conversations: Conversations, budget_bytes: int) -> None:
        """`budget_bytes`: what the server has for keys and values."""
        self._conversations, self._budget_bytes = conversations, budget_bytes
        self._client: TokenClient | None = None
        self._again: list[Reply] = []

    async def run(self, url: str) -> None:
        prompts = self._conversations.prompts()
        async with aclosing(TokenClient(url)) as self._client:
            for prompt in prompts:
                await self._client.ask(prompt, 1)
            for prompt in reversed(prompts):
                if (reply := await self._client.ask(prompt, 1)) is not None:
                    self._again.append(reply)

    def figures(self) -> Figures:
        if self._client is None:
            return {}
        held = sum(reply.computed <= 1 for reply in self._again)
        return {
            "conversations": self._conversations.number,
            "tokens_of_each": self._conversations.length,
            "kv_mib": round(self._budget_bytes / MIB, 1),
            "conversations_held": held,
            "conversations_per_gib": held * GIB // self._budget_bytes,
            "tokens_held": sum(reply.cached for reply in self._again),
            **self._client.totals(),
        }

    async def necessary(self, model: str) -> int:
        return self._client.necessary_tokens() if self._client is not None else 0
