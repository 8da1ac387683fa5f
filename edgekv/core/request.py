"""What a caller asks for. Immutable: nothing below the service layer edits it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal, NewType, TypeAlias

import msgspec

Token = NewType("Token", int)
SeqId = NewType("SeqId", int)
RequestId = NewType("RequestId", str)


class Segment(msgspec.Struct, frozen=True):
    """A piece of a prompt. Only `control` text may become control tokens."""

    text: str
    control: bool


class TextPrompt(msgspec.Struct, frozen=True, tag="text"):
    segments: tuple[Segment, ...]


class TokenPrompt(msgspec.Struct, frozen=True, tag="tokens"):
    tokens: tuple[Token, ...]


Prompt: TypeAlias = TextPrompt | TokenPrompt


class Grammar(msgspec.Struct, frozen=True):
    """What an answer must look like, to the last character."""

    kind: Literal["json_schema", "json_object", "regex", "lark"]
    text: str = ""
    """The schema as JSON, the expression, or the grammar; nothing for any JSON object."""

    @classmethod
    def of_schema(cls, schema: Any) -> Grammar:
        """JSON that a JSON schema, decoded, allows."""
        return cls("json_schema", msgspec.json.encode(schema).decode())


class SamplingParams(msgspec.Struct, frozen=True):
    """How the next token is chosen. The defaults are those of llama.cpp's own tools."""

    temperature: float = 0.8
    """0 takes the most likely token."""
    top_k: int = 40
    """0 turns it off."""
    top_p: float = 0.95
    min_p: float = 0.05
    seed: int | None = None
    """With a seed the random stream depends only on the seed and the position."""
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[Token, float], ...] = ()
    grammar: Grammar | None = None
    top_logprobs: int | None = None
    """Report each token's log-probability beside those of so many likeliest; None: report none."""


class Priority(StrEnum):
    """Who starts first and is suspended last. Whoever waits long moves up."""

    INTERACTIVE = "interactive"
    NORMAL = "normal"
    BATCH = "batch"


class Request(msgspec.Struct, frozen=True):
    """A prompt in tokens and how to continue it.

    Raises `ValueError` for an empty prompt or a `max_tokens` that leaves nothing to do.
    """

    id: RequestId
    prompt: tuple[Token, ...]
    max_tokens: int
    sampling: SamplingParams = SamplingParams()
    ignore_end: bool = False
    """Go on past the model's end-of-text tokens, up to `max_tokens`."""
    generated: tuple[Token, ...] = ()
    """What the answer already consists of; counts towards `max_tokens`."""
    priority: Priority = Priority.NORMAL
    branches: tuple[int, ...] = ()
    """Positions, ascending, at which other prompts will probably part from this one."""

    def __post_init__(self) -> None:
        if not self.prompt:
            raise ValueError("a request needs at least one prompt token")
        if self.max_tokens <= len(self.generated):
            raise ValueError("max_tokens must leave at least 1 token to generate")

    @property
    def known(self) -> tuple[Token, ...]:
        """Every token there is to compute before the next one can be sampled."""
        return self.prompt + self.generated
