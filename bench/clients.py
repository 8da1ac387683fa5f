"""Clients of an OpenAI-style server that keep time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import httpx2
import msgspec
import openai

from bench.connections import connected, told
from edgekv.service.messages import Message


@dataclass(frozen=True, slots=True)
class Answer:
    """One streamed answer. Times are seconds since the request was sent."""

    text: str
    token_times: tuple[float, ...]
    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens that were not computed, by the server's own account."""
    answer_tokens: int
    """By the server's account, or else the pieces that came."""
    finish: str
    counted: bool
    """Whether the server gave an account. If not, the tokens of the prompt are unknown: 0."""

    @property
    def first_token(self) -> float:
        return self.token_times[0]

    @property
    def computed(self) -> int:
        return self.prompt_tokens - self.cached_tokens

    @property
    def worst_gap(self) -> float:
        return max((b - a for a, b in zip(self.token_times, self.token_times[1:], strict=False)))


class PromptDetails(msgspec.Struct, frozen=True):
    cached_tokens: int | None = None


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: PromptDetails | None = None


class ChunkDelta(msgspec.Struct, frozen=True):
    content: str | None = None


class ChunkChoice(msgspec.Struct, frozen=True):
    delta: ChunkDelta
    finish_reason: str | None = None


class Chunk(msgspec.Struct, frozen=True):
    """What is read of an event of a streamed chat completion, or of an error in its place."""

    choices: tuple[ChunkChoice, ...] = ()
    usage: Usage | None = None
    error: dict[str, Any] | None = None


CHUNK = msgspec.json.Decoder(Chunk)


class Client:
    """Asks one server, and remembers what was asked and how it ended."""

    def __init__(self, url: str, *, remembers: bool = True) -> None:
        self._openai = connected(url)
        self._model = ""
        self._remembers = remembers
        self._sent: list[list[Message]] = []
        self._answers: dict[int, Answer] = {}
        self._errors: set[str] = set()

    async def aclose(self) -> None:
        """Close its connections. What it remembers stays."""
        await self._openai.close()

    @property
    def exchanges(self) -> list[tuple[list[Message], Answer | None]]:
        """Every prompt in the order sent, with its answer if there was one."""
        return [(chat, self._answers.get(number)) for number, chat in enumerate(self._sent)]

    def totals(self) -> dict[str, object]:
        """Of all requests; computed tokens are None where the server does not tell."""
        answers = list(self._answers.values())
        computed = sum(a.computed for a in answers) if all(a.counted for a in answers) else None
        return {
            "asked": len(self._sent),
            "finished": len(answers),
            "errors": sorted(self._errors),
            "prompt_tokens": sum(a.prompt_tokens for a in answers),
            "prompt_tokens_computed": computed,
            "answer_tokens": sum(a.answer_tokens for a in answers),
        }

    async def ask(
        self, chat: list[Message], max_tokens: int, *, pause: float = 0.0, **extra: Any
    ) -> Answer | openai.APIError:
        """One streamed answer at temperature 0, read with `pause` seconds behind each piece.

        `extra` are fields of the body beyond OpenAI's.
        """
        await self._know_model()
        number = self._note(chat)
        started = time.perf_counter()
        try:
            # Lines as they are: building objects of them takes a tenth of a small token's time.
            async with self._openai.chat.completions.with_streaming_response.create(
                **self._body(chat, max_tokens, extra),
                stream=True,
                stream_options={"include_usage": True},
            ) as response:
                answer = await _collect(_events(response), started, pause)
        except openai.APIError as error:
            return self._note_error(error)
        return self._keep(number, answer)

    async def ask_whole(
        self, chat: list[Message], max_tokens: int, **extra: Any
    ) -> Answer | openai.APIError:
        """The same without a stream: one time, at the end."""
        await self._know_model()
        number = self._note(chat)
        started = time.perf_counter()
        try:
            completion = await self._openai.chat.completions.create(
                **self._body(chat, max_tokens, extra)
            )
        except openai.APIError as error:
            return self._note_error(error)
        (choice,) = completion.choices
        took = time.perf_counter() - started
        answer = _answer(
            choice.message.content or "", [took], completion.usage, choice.finish_reason
        )
        return self._keep(number, answer)

    async def _know_model(self) -> None:
        if not self._model:
            self._model = (await self._openai.models.list()).data[0].id

    def _body(self, chat: list[Message], max_tokens: int, extra: dict[str, Any]) -> dict[str, Any]:
        return {
            "model": self._model,
            "messages": [{"role": m.role, "content": m.content} for m in chat],
            "max_tokens": max_tokens,
            "temperature": 0,
            "extra_body": extra,
        }

    def _note(self, chat: list[Message]) -> int:
        if self._remembers:
            self._sent.append(list(chat))
        return len(self._sent) - 1

    def _note_error(self, error: openai.APIError) -> openai.APIError:
        if self._remembers:
            self._errors.add(told(error))
        return error

    def _keep(self, number: int, answer: Answer) -> Answer:
        if self._remembers:
            self._answers[number] = answer
        return answer


async def _events(response: openai.AsyncAPIResponse[Any]) -> AsyncGenerator[Chunk]:
    """The chunks of a stream. Raises `openai.APIError` for an error in it, as openai's own does."""
    async for line in _lines(response):
        if not line.startswith("data: {"):
            continue
        chunk = CHUNK.decode(line.removeprefix("data: "))
        if chunk.error is not None:
            message = str(chunk.error.get("message", "an error without words"))
            raise openai.APIError(message, response.http_request, body=chunk.error)
        yield chunk


async def _lines(response: openai.AsyncAPIResponse[Any]) -> AsyncGenerator[str]:
    """Raises `openai.APIConnectionError` if the connection ends before the stream does."""
    try:
        async for line in response.iter_lines():
            yield line
    except httpx2.HTTPError as error:
        raise openai.APIConnectionError(request=response.http_request) from error


async def _collect(chunks: AsyncGenerator[Chunk], started: float, pause: float) -> Answer:
    text, times, finish, usage = "", [], "", None
    async with aclosing(chunks):
        async for chunk in chunks:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                if choice.delta.content:
                    text += choice.delta.content
                    times.append(time.perf_counter() - started)
                finish = choice.finish_reason or finish
            if pause:
                await asyncio.sleep(pause)
    return _answer(text, times or [time.perf_counter() - started], usage, finish)


def _answer(text: str, times: list[float], usage: Usage | None, finish: str) -> Answer:
    if usage is None:
        return Answer(text, tuple(times), 0, 0, len(times), finish, counted=False)
    details = usage.prompt_tokens_details
    cached = details.cached_tokens if details is not None else None
    prompt, answer = usage.prompt_tokens, usage.completion_tokens
    return Answer(text, tuple(times), prompt, cached or 0, answer, finish, counted=True)
