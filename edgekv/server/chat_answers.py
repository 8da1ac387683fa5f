"""Choices of a chat completion."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from edgekv.server.logprobs import ChatLogprobs, chat_logprobs
from edgekv.server.turn import Ended, EndOfTurn, Spoken
from edgekv.service.pieces import Called, Piece, Said, Thought


class FunctionCall(msgspec.Struct, frozen=True):
    name: str
    arguments: str


class ToolCall(msgspec.Struct, frozen=True):
    id: str
    function: FunctionCall
    type: Literal["function"] = "function"
    index: int | UnsetType = UNSET


class ChatMessage(msgspec.Struct, frozen=True):
    content: str | None
    role: Literal["assistant"] = "assistant"
    refusal: None = None
    reasoning_content: str | UnsetType = UNSET
    tool_calls: tuple[ToolCall, ...] | UnsetType = UNSET


class ChatDelta(msgspec.Struct, frozen=True):
    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    tool_calls: tuple[ToolCall, ...] | UnsetType = UNSET


class ChatChoice(msgspec.Struct, frozen=True):
    index: int
    message: ChatMessage
    finish_reason: EndOfTurn
    logprobs: ChatLogprobs | None = None


class ChatChunkChoice(msgspec.Struct, frozen=True):
    index: int
    delta: ChatDelta
    finish_reason: EndOfTurn | None = None
    logprobs: ChatLogprobs | None = None


class ChatShape:
    prompt_field = "messages"
    id_prefix = "chatcmpl-"
    whole_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def choice(self, index: int) -> ChatChoiceWriter:
        return ChatChoiceWriter(index)


class ChatChoiceWriter:
    def __init__(self, index: int) -> None:
        self._index = index
        self._num_calls = 0

    def whole(self, spoken: Sequence[Spoken], ended: Ended) -> ChatChoice:
        pieces = [piece for part in spoken for piece in part.pieces]
        said, thought = text_of(Said, pieces), text_of(Thought, pieces)
        calls = tuple(_call(piece) for piece in pieces if isinstance(piece, Called))
        message = ChatMessage(
            content=said if said or not calls else None,
            reasoning_content=thought or UNSET,
            tool_calls=calls or UNSET,
        )
        logprobs = [token for part in spoken for token in part.logprobs]
        return ChatChoice(self._index, message, ended.reason, chat_logprobs(logprobs))

    def opening(self) -> ChatChunkChoice:
        return ChatChunkChoice(self._index, ChatDelta(role="assistant", content=""))

    def piece(self, spoken: Spoken) -> ChatChunkChoice:
        calls = [piece for piece in spoken.pieces if isinstance(piece, Called)]
        delta = ChatDelta(
            content=text_of(Said, spoken.pieces) or UNSET,
            reasoning_content=text_of(Thought, spoken.pieces) or UNSET,
            tool_calls=tuple(_call(c, self._num_calls + i) for i, c in enumerate(calls)) or UNSET,
        )
        self._num_calls += len(calls)
        return ChatChunkChoice(self._index, delta, logprobs=chat_logprobs(spoken.logprobs))

    def ending(self, ended: Ended) -> ChatChunkChoice:
        return ChatChunkChoice(self._index, ChatDelta(), ended.reason)


def text_of(kind: type[Said] | type[Thought], pieces: Sequence[Piece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, kind))


def _call(called: Called, index: int | UnsetType = UNSET) -> ToolCall:
    function = FunctionCall(called.name, called.arguments)
    return ToolCall(f"call_{uuid.uuid4().hex[:24]}", function, index=index)
