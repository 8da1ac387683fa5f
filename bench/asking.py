"""What a load asks of one server, and what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Protocol

from bench.clients import Client
from bench.necessary import necessary_tokens
from edgekv.service.messages import Message

Figures = dict[str, object]
WARM_UP = [Message("user", "hi")]


class Asking(Protocol):
    """One load on one server."""

    async def run(self, url: str) -> None:
        """Ask all; may be broken off."""

    def figures(self) -> Figures:
        """Of what was asked so far, `asked`, `finished` and `errors` among them."""

    async def necessary(self, model: str) -> int:
        """Prompt tokens that had to be computed, whatever the server."""


class Chats:
    """Conversations in words. A first one warms up and is not counted."""

    def __init__(self, ask: Callable[[Client], Awaitable[Figures]]) -> None:
        self._ask = ask
        self._client: Client | None = None
        self._told: Figures = {}

    async def run(self, url: str) -> None:
        async with aclosing(Client(url)) as warm_up, aclosing(Client(url)) as self._client:
            await warm_up.ask(WARM_UP, 8)
            self._told = await self._ask(self._client)

    def figures(self) -> Figures:
        return self._told or (self._client.totals() if self._client is not None else {})

    async def necessary(self, model: str) -> int:
        exchanges = self._client.exchanges if self._client is not None else []
        return await necessary_tokens(model, exchanges, [WARM_UP])
