"""How likely the tokens of an answer were, in OpenAI's two forms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from edgekv.core.events import TokenLogprob

IMPOSSIBLE = -9999.0
"""What OpenAI writes for a token that cannot come; JSON has no infinity."""


class TopLogprob(msgspec.Struct, frozen=True):
    token: str
    logprob: float
    bytes: tuple[int, ...]


class ChatLogprob(msgspec.Struct, frozen=True):
    token: str
    logprob: float
    bytes: tuple[int, ...]
    top_logprobs: tuple[TopLogprob, ...]


class ChatLogprobs(msgspec.Struct, frozen=True):
    content: tuple[ChatLogprob, ...]
    refusal: None = None


class TextLogprobs(msgspec.Struct, frozen=True):
    tokens: tuple[str, ...]
    token_logprobs: tuple[float, ...]
    top_logprobs: tuple[dict[str, float], ...]
    text_offset: tuple[int, ...]


def chat_logprobs(tokens: Sequence[TokenLogprob]) -> ChatLogprobs | None:
    """None where none were asked for."""
    return ChatLogprobs(tuple(map(_chat_logprob, tokens))) if tokens else None


def text_logprobs(tokens: Sequence[TokenLogprob], offset: int) -> TextLogprobs | None:
    """`offset` is the number of characters before the first of them."""
    if not tokens:
        return None
    texts = [_text(token.text) for token in tokens]
    offsets = []
    for text in texts:
        offsets.append(offset)
        offset += len(text)
    return TextLogprobs(
        tokens=tuple(texts),
        token_logprobs=tuple(_finite(token.logprob) for token in tokens),
        top_logprobs=tuple(
            {_text(text): _finite(logprob) for _, text, logprob in token.top} for token in tokens
        ),
        text_offset=tuple(offsets),
    )


def _chat_logprob(token: TokenLogprob) -> ChatLogprob:
    top = tuple(TopLogprob(_text(b), _finite(logprob), tuple(b)) for _, b, logprob in token.top)
    return ChatLogprob(_text(token.text), _finite(token.logprob), tuple(token.text), top)


def _text(piece: bytes) -> str:
    return piece.decode("utf-8", "replace")


def _finite(logprob: float) -> float:
    return logprob if math.isfinite(logprob) else IMPOSSIBLE
