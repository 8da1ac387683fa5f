"""What the engine reports. A request ends with exactly one `Finished` or `Failed`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from enum import StrEnum
from typing import TypeAlias

import msgspec

from edgekv.core.request import RequestId, Token
from edgekv.errors import EdgeKVError, restore


class FinishReason(StrEnum):
    STOP = "stop"
    """The model ended the answer, or a stop string was met."""
    LENGTH = "length"
    """`max_tokens` or the context length was reached."""
    CANCELLED = "cancelled"


class Started(msgspec.Struct, frozen=True, tag=True):
    """The request has a sequence id; `num_reused` of its prompt tokens need no computing, because
    others have their cells or the store had a copy.
    """

    request_id: RequestId
    num_prompt: int
    num_reused: int


class TokenLogprob(msgspec.Struct, frozen=True):
    """One token of an answer: its bytes, its natural log-probability before any sampling option
    changed it, and the likeliest tokens at its place, likeliest first."""

    token: Token
    text: bytes
    logprob: float
    top: tuple[tuple[Token, bytes, float], ...] = ()


class Sampled(msgspec.Struct, frozen=True, tag=True):
    """Inside the engine: one more token of the answer."""

    request_id: RequestId
    token: Token
    logprob: TokenLogprob | None = None
    """If the request asked for it."""


class Delta(msgspec.Struct, frozen=True, tag=True):
    """Towards the caller: whole characters, never part of a stop string.

    `num_tokens` is how many tokens of the answer exist by now, those without
    visible text included.
    """

    request_id: RequestId
    text: str
    num_tokens: int
    tokens: tuple[Token, ...] = ()
    """The tokens since the last `Delta`: what an answer needs to go on in another engine."""
    logprobs: tuple[TokenLogprob, ...] = ()
    """One for each of `tokens` if the request asked for them."""


class Finished(msgspec.Struct, frozen=True, tag=True):
    request_id: RequestId
    reason: FinishReason
    num_generated: int
    """Tokens of the answer, without the end-of-text token."""
    stop: str | None = None
    """The stop string that was met, if one was."""


class ErrorInfo(msgspec.Struct, frozen=True):
    """An `EdgeKVError` as it travels between processes."""

    code: str
    message: str
    param: str | None = None

    @classmethod
    def of(cls, error: EdgeKVError) -> ErrorInfo:
        return cls(error.code, str(error), getattr(error, "param", None))

    def to_error(self) -> EdgeKVError:
        return restore(self.code, self.message, self.param)


class Failed(msgspec.Struct, frozen=True, tag=True):
    request_id: RequestId
    error: ErrorInfo


EngineEvent: TypeAlias = Started | Sampled | Finished | Failed
AnswerEvent: TypeAlias = Started | Delta | Finished
"""What is heard of an answer by whoever asked for it; a `Failed` reaches them as its error."""
StreamEvent: TypeAlias = AnswerEvent | Failed
AnswerStream: TypeAlias = AsyncGenerator[AnswerEvent]
