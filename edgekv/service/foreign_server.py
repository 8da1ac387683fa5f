"""A model behind any OpenAI-style server, for a conversation.

Such a server tells what was said and how many tokens it took. Who holds which cells, what is
planned and why a prompt was computed it does not tell, and what asks for that is told so.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import httpx2
import msgspec

from edgekv.core.events import AnswerStream, FinishReason
from edgekv.core.frames import Inspection, Snapshot, Submit
from edgekv.core.inspection import PromptStart
from edgekv.core.request import SamplingParams, Segment, Token
from edgekv.errors import Unavailable
from edgekv.service.conversation import (
    NO_HABITS,
    USUAL_SAMPLING,
    AnswerPart,
    AnswerStats,
    ChatModel,
    Conversation,
    Habits,
)
from edgekv.service.messages import Message
from edgekv.service.report import Report
from edgekv.service.states import LoadStep, State

SECONDS_OF_SILENCE = 300.0
"""Some servers say nothing while they read a long prompt."""
REASONS = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: dict[str, Any] | None = None


class Part(msgspec.Struct, frozen=True):
    content: str | None = None
    reasoning_content: str | None = None


class Choice(msgspec.Struct, frozen=True):
    delta: Part = Part()
    finish_reason: str | None = None


class Chunk(msgspec.Struct, frozen=True):
    """What of a streamed chunk is of interest; servers add what they like."""

    choices: tuple[Choice, ...] = ()
    usage: Usage | None = None
    error: Any = None


class UnseenHost:
    """The `ModelHost` of a server that shows nothing of itself."""

    facts = plan = desk = own_requests = None
    snapshot = Snapshot()

    def __init__(self, where: str) -> None:
        self.where, self.state = where, State.STARTING

    async def start(self, on_progress: Callable[[LoadStep], None] = lambda _: None) -> None:
        self.state = State.READY
        on_progress(LoadStep(State.READY))

    def stream(self, submit: Submit) -> AnswerStream:
        raise self.unseen()

    async def tokenize(self, segments: tuple[Segment, ...]) -> tuple[Token, ...]:
        raise self.unseen()

    async def inspect(self) -> Inspection:
        raise self.unseen()

    async def report(self) -> Report:
        raise self.unseen()

    async def close(self) -> None:
        self.state = State.CLOSED

    def unseen(self) -> Unavailable:
        """What is told to whoever asks for more than answers."""
        return Unavailable(
            f"The server at {self.where} is not EdgeKV, so it does not tell what its engine does; "
            "'edgekv serve' shows all of it."
        )


class ForeignModel(ChatModel):
    """A `ChatModel` whose prompts the server writes."""

    def __init__(
        self,
        url: str,
        key: str | None,
        habits: Habits = NO_HABITS,
        clock: Callable[[], float] = time.perf_counter,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """`url` ends before `/chat/completions`."""
        self.host = UnseenHost(url)
        super().__init__(self.host, clock=clock, habits=habits)
        self._model = ""
        self._client = httpx2.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=SECONDS_OF_SILENCE,
            transport=transport,
        )

    async def start(self, on_progress: Callable[[LoadStep], None] = lambda _: None) -> None:
        """Take the first model that the server names. Raises `Unavailable`."""
        listed = _json(await self._send("GET", "/models"))
        models = listed.get("data") if isinstance(listed, dict) else None
        if models == []:
            raise Unavailable(
                f"The server at {self.host.where} has no model loaded; load one there first."
            )
        if not isinstance(models, list) or not isinstance(models[0], dict):
            raise Unavailable(self._sentence("names no model"))
        self._model = str(models[0].get("id", ""))
        await self.host.start(on_progress)

    async def answer(
        self, conversation: Conversation, max_tokens: int | None = None
    ) -> AsyncGenerator[AnswerPart]:
        asked, stats = self._clock(), AnswerStats()
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [_said(message) for message in self._told(conversation)],
            **_unusual(self._habits.sampling),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if max_tokens is not None:
            body["max_tokens"] = max_tokens
        async for chunk in self._chunks(body):
            for choice in chunk.choices[:1]:
                stats = _grown(stats, choice, self._clock() - asked)
                part = choice.delta
                if part.content or part.reasoning_content:
                    yield AnswerPart(part.content or "", stats, part.reasoning_content or "")
            if chunk.usage is not None:
                stats = _counted(stats, chunk.usage)
        yield AnswerPart("", replace(stats, reason=stats.reason or FinishReason.STOP))

    async def num_tokens(self, conversation: Conversation) -> int:
        raise self.host.unseen()

    async def last_start(self) -> PromptStart | None:
        raise self.host.unseen()

    async def close(self) -> None:
        await self.host.close()
        await self._client.aclose()

    async def _chunks(self, body: dict[str, Any]) -> AsyncIterator[Chunk]:
        try:
            async with self._client.stream("POST", "/chat/completions", json=body) as answer:
                if answer.status_code != 200:
                    raise Unavailable(self._sentence(_refusal(await answer.aread(), answer)))
                async for line in answer.aiter_lines():
                    data = line.removeprefix("data:").strip()
                    if data == line or data == "[DONE]":
                        continue
                    chunk = msgspec.json.decode(data, type=Chunk)
                    if chunk.error is not None:
                        raise Unavailable(self._sentence(f"ends the answer: {chunk.error}"))
                    yield chunk
        except httpx2.HTTPError as error:
            raise Unavailable(self._sentence(f"does not answer ({error})")) from None
        except msgspec.DecodeError:
            raise Unavailable(self._sentence("does not speak OpenAI's way")) from None

    async def _send(self, method: str, path: str) -> httpx2.Response:
        try:
            answer = await self._client.request(method, path)
        except httpx2.HTTPError as error:
            raise Unavailable(self._sentence(f"does not answer ({error})")) from None
        if answer.status_code != 200:
            raise Unavailable(self._sentence(_refusal(answer.content, answer)))
        return answer

    def _sentence(self, what: str) -> str:
        return f"The server at {self.host.where} {what}; check the address and EDGEKV_API_KEY."


def _unusual(sampling: SamplingParams) -> dict[str, Any]:
    """What the user chose; the rest is as the server likes it."""
    chosen, usual = msgspec.to_builtins(sampling), msgspec.to_builtins(USUAL_SAMPLING)
    return {name: value for name, value in chosen.items() if value != usual[name]}


def _said(message: Message) -> dict[str, Any]:
    said: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_call_id is not None:
        said["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        said["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))},
            }
            for call in message.tool_calls
        ]
    return said


def _grown(stats: AnswerStats, choice: Choice, seconds: float) -> AnswerStats:
    """A chunk with text counts as one token until the server tells how many there were."""
    if choice.finish_reason is not None:
        stats = replace(stats, reason=REASONS.get(choice.finish_reason, FinishReason.STOP))
    if not (choice.delta.content or choice.delta.reasoning_content):
        return stats
    number = stats.num_generated + 1
    first = stats.first or (number, seconds)
    return replace(stats, num_generated=number, seconds=seconds, first=first)


def _counted(stats: AnswerStats, usage: Usage) -> AnswerStats:
    cached = (usage.prompt_tokens_details or {}).get("cached_tokens")
    return replace(
        stats,
        num_prompt=usage.prompt_tokens,
        num_reused=cached if isinstance(cached, int) else 0,
        num_generated=usage.completion_tokens or stats.num_generated,
    )


def _json(answer: httpx2.Response) -> Any:
    try:
        return json.loads(answer.content)
    except ValueError:
        return None


def _refusal(body: bytes, answer: httpx2.Response) -> str:
    """The server's own words, if they can be found."""
    try:
        error = json.loads(body)["error"]
        words = error["message"] if isinstance(error, dict) else str(error)
    except (ValueError, KeyError, TypeError):
        words = answer.reason_phrase
    return f"refuses with status {answer.status_code}: {str(words)[:300]}"
