"""Clients of an OpenAI-style server that keep time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import openai

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
    finish: str

    @property
    def first_token(self) -> float:
        return self.token_times[0]

    @property
    def computed(self) -> int:
        return self.prompt_tokens - self.cached_tokens

    @property
    def worst_gap(self) -> float:
        return max((b - a for a, b in zip(self.token_times, self.token_times[1:], strict=False)))


class Client:
    def __init__(self, url: str) -> None:
        self._openai = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=3600)
        self._model = ""

    async def ask(
        self, chat: list[Message], max_tokens: int, **extra: Any
    ) -> Answer | openai.APIError:
        """One answer at temperature 0; `extra` are fields of the body beyond OpenAI's."""
        if not self._model:
            self._model = (await self._openai.models.list()).data[0].id
        messages: Any = [{"role": m.role, "content": m.content} for m in chat]
        started = time.perf_counter()
        try:
            stream = await self._openai.chat.completions.create(
                model=self._model,
                messages=messages,
                max_tokens=max_tokens,
                temperature=0,
                stream=True,
                stream_options={"include_usage": True},
                extra_body=extra,
            )
            return await _collect(stream, started)
        except openai.APIError as error:
            return error


async def _collect(stream: openai.AsyncStream[Any], started: float) -> Answer:
    text, times, finish, usage = "", [], "", None
    async for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            if choice.delta.content:
                text += choice.delta.content
                times.append(time.perf_counter() - started)
            finish = choice.finish_reason or finish
    assert usage is not None, "a server that counts nothing cannot be measured"
    cached = usage.prompt_tokens_details and usage.prompt_tokens_details.cached_tokens
    return Answer(
        text,
        tuple(times) or (time.perf_counter() - started,),
        usage.prompt_tokens,
        cached or 0,
        usage.completion_tokens,
        finish,
    )


def finished(answers: list[Answer | openai.APIError]) -> list[Answer]:
    return [answer for answer in answers if isinstance(answer, Answer)]


def errors(answers: list[Answer | openai.APIError]) -> list[str]:
    """The distinct words of those that failed."""
    return sorted({str(answer) for answer in answers if not isinstance(answer, Answer)})
