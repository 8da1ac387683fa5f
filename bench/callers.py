"""Callers of every kind for a server under load, each request of theirs with exactly one end."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager

import openai

from bench.clients import Answer, Client
from bench.words import words
from edgekv.service.messages import Message

CONTEXT_LENGTH = 512
"""That the server must have."""
MOST_TOKENS = 48
MOST_WORDS = 120
TOO_MANY_WORDS = 700
"""More than the context holds."""
MOST_PATIENCE_SECONDS = 2.0
PAUSE_SECONDS = 0.15
"""Of a slow reader, behind each piece."""


class Load:
    """Callers without end: each asks, is done with the answer in its own way, and asks again.

    `outcomes` counts how requests ended; all of them together are `num_sent` once nobody calls.
    `whole`, `left` (by the caller), `turned_away` (429) and `refused` (a prompt too long, rightly)
    are what should be; `short` and `failed` are not.
    """

    def __init__(self, url: str, seed: int) -> None:
        self._client = Client(url, remembers=False)
        self._draw = random.Random(seed)
        self._goes_on = True
        self.num_sent = 0
        self.under_way: set[int] = set()
        """By number, as sent."""
        self.outcomes: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self._kinds: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (40, self._reads),
            (15, self._converses),
            (20, self._leaves),
            (10, self._reads_slowly),
            (10, self._waits_for_all),
            (5, self._asks_too_much),
        ]

    async def run(self, num_callers: int) -> None:
        """Until `stop` was called and every request has ended."""
        async with aclosing(self._client), asyncio.TaskGroup() as group:
            for _ in range(num_callers):
                group.create_task(self._call_again_and_again())

    @property
    def num_ended(self) -> int:
        """Requests that got an answer, to its end."""
        return self.outcomes["whole"]

    def stop(self) -> None:
        self._goes_on = False

    async def _call_again_and_again(self) -> None:
        weights = [weight for weight, _ in self._kinds]
        while self._goes_on:
            (_, kind), *_ = self._draw.choices(self._kinds, weights)
            await kind()

    async def _reads(self) -> None:
        await self._ask([self._question()])

    async def _converses(self) -> None:
        chat: list[Message] = []
        for _ in range(3):
            chat = [*chat, self._question()]
            answer = await self._ask(chat)
            if not isinstance(answer, Answer):
                return
            chat = [*chat, Message("assistant", answer.text)]

    async def _leaves(self) -> None:
        with self._sent():
            await self._leave()

    async def _leave(self) -> None:
        try:
            async with asyncio.timeout(self._draw.uniform(0.05, MOST_PATIENCE_SECONDS)):
                answer = await self._client.ask([self._question()], MOST_TOKENS, ignore_eos=True)
        except TimeoutError:
            self.outcomes["left"] += 1
            return
        await self._count(answer, MOST_TOKENS)

    async def _reads_slowly(self) -> None:
        await self._ask([self._question()], pause=PAUSE_SECONDS)

    async def _waits_for_all(self) -> None:
        await self._ask([self._question()], stream=False)

    async def _asks_too_much(self) -> None:
        await self._ask([Message("user", words(TOO_MANY_WORDS, self._draw.getrandbits(32)))])

    def _question(self) -> Message:
        num_words = self._draw.randint(5, MOST_WORDS)
        return Message("user", words(num_words, self._draw.getrandbits(32)))

    async def _ask(
        self, chat: list[Message], *, pause: float = 0.0, stream: bool = True
    ) -> Answer | openai.APIError:
        tokens = self._draw.randint(4, MOST_TOKENS)
        with self._sent():
            if stream:
                answer = await self._client.ask(chat, tokens, pause=pause, ignore_eos=True)
            else:
                answer = await self._client.ask_whole(chat, tokens, ignore_eos=True)
            await self._count(answer, tokens)
        return answer

    @contextmanager
    def _sent(self) -> Iterator[None]:
        """A request, from here to its end."""
        number = self.num_sent = self.num_sent + 1
        self.under_way.add(number)
        try:
            yield
        finally:
            self.under_way.discard(number)

    async def _count(self, answer: Answer | openai.APIError, tokens: int) -> None:
        outcome = outcome_of(answer, tokens)
        self.outcomes[outcome] += 1
        if outcome == "failed":
            self.errors[str(answer)] += 1
        if outcome == "turned_away":
            await asyncio.sleep(self._draw.uniform(0, MOST_PATIENCE_SECONDS))


def outcome_of(answer: Answer | openai.APIError, tokens: int) -> str:
    if isinstance(answer, Answer):
        is_full = answer.prompt_tokens + answer.answer_tokens >= CONTEXT_LENGTH
        return "whole" if answer.answer_tokens == tokens or is_full else "short"
    # By the code, for an error behind the first comment of a stream has no status of its own.
    return {"overloaded": "turned_away", "context_length_exceeded": "refused"}.get(
        answer.code or "", "failed"
    )
