"""A client that asks with tokens instead of words, so that every server is asked the very same."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import openai
from openai.types import Completion, CompletionUsage

from bench.connections import connected, told
from bench.necessary import Known
from edgekv.core.request import Token


@dataclass(frozen=True, slots=True)
class Reply:
    """One streamed answer. Seconds since its request was sent."""

    first_token_seconds: float
    total_seconds: float
    usage: CompletionUsage
    """By the server's own account."""

    @property
    def cached(self) -> int:
        """Prompt tokens that were not computed."""
        details = self.usage.prompt_tokens_details
        return (details and details.cached_tokens) or 0

    @property
    def computed(self) -> int:
        return self.usage.prompt_tokens - self.cached


class TokenClient:
    """Asks one server to go on from tokens, and remembers what was asked and how it ended."""

    def __init__(self, url: str) -> None:
        self._openai = connected(url)
        self._model = ""
        self.sent: list[Sequence[Token]] = []
        self.replies: list[Reply] = []
        self._errors: set[str] = set()

    async def aclose(self) -> None:
        """Close its connections. What it remembers stays."""
        await self._openai.close()

    def totals(self) -> dict[str, object]:
        """Of all requests."""
        return {
            "asked": len(self.sent),
            "finished": len(self.replies),
            "errors": sorted(self._errors),
            "prompt_tokens": sum(r.usage.prompt_tokens for r in self.replies),
            "prompt_tokens_computed": sum(r.computed for r in self.replies),
            "answer_tokens": sum(r.usage.completion_tokens for r in self.replies),
        }

    def necessary_tokens(self) -> int:
        """What of all prompts no other begins with; of each at least the last, to have logits."""
        known = Known()
        return sum(max(1, known.add(prompt)) for prompt in self.sent)

    async def ask(self, prompt: Sequence[Token], max_tokens: int) -> Reply | None:
        """An answer of exactly so many tokens; None if there was an error instead."""
        if not self._model:
            self._model = (await self._openai.models.list()).data[0].id
        self.sent.append(prompt)
        try:
            reply = await self._answer(prompt, max_tokens)
        except openai.APIError as error:
            self._errors.add(told(error))
            return None
        self.replies.append(reply)
        return reply

    async def _answer(self, prompt: Sequence[Token], max_tokens: int) -> Reply:
        sent, first, usage = time.perf_counter(), 0.0, None
        stream: openai.AsyncStream[Completion] = await self._openai.completions.create(
            model=self._model,
            prompt=list(prompt),
            max_tokens=max_tokens,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True},
        )
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].text and not first:
                first = time.perf_counter() - sent
            usage = chunk.usage or usage
        total = time.perf_counter() - sent
        if usage is None:
            raise openai.APIError(
                "the answer ended without an account", stream.response.request, body=None
            )
        return Reply(first or total, total, usage)
