"""Answers in OpenAI's shapes, whole or in chunks."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Literal, Protocol, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from edgekv.core.events import Delta, Finished, FinishReason, Started
from edgekv.core.request import RequestId
from edgekv.errors import NotReady, PromptTooLong

WorkerEvent: TypeAlias = Started | Delta | Finished
EndOfAnswer: TypeAlias = Literal["stop", "length"]


class CachedTokens(msgspec.Struct, frozen=True):
    cached_tokens: int


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens

    @classmethod
    def of(cls, started: Started, finished: Finished) -> Usage:
        prompt, answer = started.num_prompt, finished.num_generated
        return cls(prompt, answer, prompt + answer, CachedTokens(started.num_reused))


class ChatMessage(msgspec.Struct, frozen=True):
    content: str
    role: Literal["assistant"] = "assistant"
    refusal: None = None


class ChatDelta(msgspec.Struct, frozen=True):
    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET


class ChatChoice(msgspec.Struct, frozen=True):
    message: ChatMessage
    finish_reason: EndOfAnswer
    index: int = 0
    logprobs: None = None


class ChatChunkChoice(msgspec.Struct, frozen=True):
    delta: ChatDelta
    finish_reason: EndOfAnswer | None = None
    index: int = 0
    logprobs: None = None


class TextChoice(msgspec.Struct, frozen=True):
    text: str
    finish_reason: EndOfAnswer | None = None
    index: int = 0
    logprobs: None = None


Choice: TypeAlias = ChatChoice | ChatChunkChoice | TextChoice


class Answer(msgspec.Struct, frozen=True):
    """A whole answer or one chunk of it; `usage` is left out where nobody asked for it."""

    id: str
    object: str
    created: int
    model: str
    choices: tuple[Choice, ...]
    usage: Usage | UnsetType | None = UNSET


class Shape(Protocol):
    """How one endpoint writes an answer's parts."""

    prompt_field: str
    id_prefix: str
    whole_object: str
    chunk_object: str

    def whole(self, text: str, reason: EndOfAnswer) -> Choice: ...

    def opening(self) -> Choice | None:
        """What a stream says before any text."""

    def piece(self, text: str) -> Choice: ...

    def ending(self, reason: EndOfAnswer) -> Choice: ...


class ChatShape:
    prompt_field = "messages"
    id_prefix = "chatcmpl-"
    whole_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def whole(self, text: str, reason: EndOfAnswer) -> Choice:
        return ChatChoice(ChatMessage(text), reason)

    def opening(self) -> Choice:
        return ChatChunkChoice(ChatDelta(role="assistant", content=""))

    def piece(self, text: str) -> Choice:
        return ChatChunkChoice(ChatDelta(content=text))

    def ending(self, reason: EndOfAnswer) -> Choice:
        return ChatChunkChoice(ChatDelta(), reason)


class TextShape:
    prompt_field = "prompt"
    id_prefix = "cmpl-"
    whole_object = chunk_object = "text_completion"

    def whole(self, text: str, reason: EndOfAnswer) -> Choice:
        return TextChoice(text, reason)

    def opening(self) -> None:
        return None

    def piece(self, text: str) -> Choice:
        return TextChoice(text)

    def ending(self, reason: EndOfAnswer) -> Choice:
        return TextChoice("", reason)


class AnswerWriter:
    """One request's answer. The events are those of `service.worker.Worker.stream`."""

    def __init__(self, shape: Shape, request_id: RequestId, model: str) -> None:
        self._shape, self._model = shape, model
        self._id = shape.id_prefix + request_id
        self._created = int(time.time())

    async def whole(self, events: AsyncGenerator[WorkerEvent]) -> Answer:
        parts: list[str] = []
        usage: Usage | UnsetType = UNSET
        reason: EndOfAnswer = "stop"
        async with self._reading(events):
            async for event in events:
                match event:
                    case Started():
                        started = event
                    case Delta(text=text):
                        parts.append(text)
                    case Finished():
                        reason, usage = _end(event), Usage.of(started, event)
        choice = self._shape.whole("".join(parts), reason)
        return self._answer(self._shape.whole_object, (choice,), usage)

    async def chunks(
        self, events: AsyncGenerator[WorkerEvent], *, wants_usage: bool
    ) -> AsyncGenerator[Answer]:
        """As OpenAI does: `usage` is null in all chunks but an extra last one, or in none."""
        usage = None if wants_usage else UNSET
        async with self._reading(events):
            async for event in events:
                match event:
                    case Started():
                        started = event
                        choice = self._shape.opening()
                    case Delta(text=text):
                        choice = self._shape.piece(text)
                    case Finished():
                        choice = self._shape.ending(_end(event))
                        finished = event
                if choice is not None:
                    yield self._chunk((choice,), usage)
        if wants_usage:
            yield self._chunk((), Usage.of(started, finished))

    @asynccontextmanager
    async def _reading(self, events: AsyncGenerator[WorkerEvent]) -> AsyncIterator[None]:
        try:
            async with aclosing(events):
                yield
        except PromptTooLong as error:
            error.param = self._shape.prompt_field
            raise

    def _chunk(self, choices: tuple[Choice, ...], usage: Usage | UnsetType | None) -> Answer:
        return self._answer(self._shape.chunk_object, choices, usage)

    def _answer(
        self, kind: str, choices: tuple[Choice, ...], usage: Usage | UnsetType | None
    ) -> Answer:
        return Answer(self._id, kind, self._created, self._model, choices, usage)


def _end(finished: Finished) -> EndOfAnswer:
    if finished.reason is FinishReason.CANCELLED:
        raise NotReady("The model was closed before the answer was complete; send it again.")
    return "length" if finished.reason is FinishReason.LENGTH else "stop"
