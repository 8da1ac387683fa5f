"""What a request may ask, and the refusal of everything else by name.

Numbers of OpenAI's parameters have OpenAI's documented ranges. A null is the same as leaving a
field out.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from edgekv.core.request import (
    Priority,
    Prompt,
    SamplingParams,
    Segment,
    TextPrompt,
    Token,
    TokenPrompt,
)
from edgekv.errors import InvalidValue, RequestError, UnsupportedOption
from edgekv.server.messages import WireMessage

LARGEST_COUNT = 2**31 - 1
"""llama.cpp counts in 32 bits with a sign."""

Count = Annotated[int, Meta(ge=1, le=LARGEST_COUNT)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Share = Annotated[float, Meta(ge=0, le=1)]
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
TokenId = Annotated[int, Meta(ge=0, le=LARGEST_COUNT)]
StopText = Annotated[str, Meta(min_length=1)]

COMPLETION_MAX_TOKENS = 16
"""OpenAI's default for text completions; chat has none."""

IGNORED = frozenset(
    {"user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"}
)
"""Fields that say something about the caller and nothing about the answer."""

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "audio": (),
    "best_of": (1,),
    "cache_prompt": (),
    "echo": (False,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logprobs": (False,),
    "modalities": (["text"],),
    "moderation": (),
    "n": (1,),
    "parallel_tool_calls": (True, False),
    "prediction": (),
    "reasoning_effort": (),
    "response_format": ({"type": "text"},),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
    "verbosity": (),
    "web_search_options": (),
}
"""Fields that are not supported yet, and the values that ask for nothing beyond an answer."""


class StreamOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class Generation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What chat and text completions have in common."""

    model: str | None = None
    max_tokens: Count | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Share | None = None
    top_k: Annotated[int, Meta(ge=0, le=LARGEST_COUNT)] | None = None
    min_p: Share | None = None
    seed: Seed | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repeat_penalty: Annotated[float, Meta(gt=0, le=2)] | None = None
    logit_bias: dict[str, Annotated[float, Meta(ge=-100, le=100)]] | None = None
    stop: StopText | Annotated[list[StopText], Meta(max_length=16)] | None = None
    ignore_eos: bool | None = None
    priority: Priority | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    def sampling(self, num_vocab: int) -> SamplingParams:
        """The sampling asked for; raises `InvalidValue` for a bias on no token."""
        names = set(SamplingParams.__struct_fields__) - {"logit_bias", "grammar", "top_logprobs"}
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        biases = (self.logit_bias or {}).items()
        return SamplingParams(
            **given, logit_bias=tuple((_token(text, num_vocab), bias) for text, bias in biases)
        )

    @property
    def stop_texts(self) -> tuple[str, ...]:
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def wants_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    def check(self) -> None:
        """Raise for fields that make no sense together."""
        if self.stream_options is not None and not self.stream:
            raise InvalidValue("stream_options", "stream_options needs stream to be true.")
        if self.stream_options is not None and self.stream_options.include_obfuscation:
            raise UnsupportedOption("stream_options.include_obfuscation")


class ChatRequest(Generation, frozen=True, kw_only=True):
    messages: Annotated[list[WireMessage], Meta(min_length=1)]
    max_completion_tokens: Count | None = None

    @property
    def token_limit(self) -> int | None:
        """The stricter of the two limits; None is as many as there is room for."""
        given = [n for n in (self.max_tokens, self.max_completion_tokens) if n is not None]
        return min(given, default=None)


class CompletionRequest(Generation, frozen=True, kw_only=True):
    prompt: str | list[Any]

    @property
    def token_limit(self) -> int:
        return COMPLETION_MAX_TOKENS if self.max_tokens is None else self.max_tokens

    def to_prompt(self) -> Prompt:
        """Raises `InvalidValue` for anything but one text or one list of token ids."""
        match self.prompt:
            case str(text) | [str(text)]:
                # The whole prompt is the caller's, who may mean its control tokens.
                return TextPrompt((Segment(text, control=True),))
            case [int(), *_]:
                return TokenPrompt(_tokens(self.prompt))
        raise InvalidValue("prompt", "prompt: send one text, or one list of token ids, a request.")


R = TypeVar("R", ChatRequest, CompletionRequest)


def parse(body: bytes, kind: type[R]) -> R:
    """A checked request; raises `RequestError` for one that cannot be honoured in full."""
    fields = _object(body)
    wanted = {name: value for name, value in fields.items() if not _asks_nothing(name, value)}
    for name in wanted:
        if name not in kind.__struct_fields__:
            raise UnsupportedOption(name, _REMEDIES.get(name, "leave it out"))
    try:
        request = msgspec.convert(wanted, kind)
    except msgspec.ValidationError as error:
        raise _readable(error) from None
    request.check()
    return request


_REMEDIES = {
    "n": "only 1 is, so send the request once for each answer",
    "best_of": "only 1 is, so send the request once for each answer",
}


def _object(body: bytes) -> dict[str, Any]:
    try:
        fields = msgspec.json.decode(body)
    except RecursionError:
        raise RequestError("The body is nested too deeply.") from None
    except msgspec.DecodeError as error:
        raise RequestError(f"The body is not valid JSON: {error}.") from None
    if not isinstance(fields, dict):
        raise RequestError("The body must be a JSON object.")
    return fields


def _asks_nothing(name: str, value: object) -> bool:
    if name in IGNORED:
        return True
    # `type` keeps True from passing as 1.
    return name in NEUTRAL and (
        value is None or any(type(value) is type(n) and value == n for n in NEUTRAL[name])
    )


def _readable(error: msgspec.ValidationError) -> InvalidValue:
    """msgspec ends its message with where it was: "Expected `int` >= 1 - at `$.max_tokens`"."""
    what, _, where = str(error).partition(" - at `$")
    param = where.strip("`.")
    return InvalidValue(param or "body", f"{param}: {what}." if param else f"{what}.")


def _tokens(ids: list[Any]) -> tuple[Token, ...]:
    try:
        return tuple(map(Token, msgspec.convert(ids, list[TokenId])))
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        raise InvalidValue("prompt", f"prompt{where.strip('`')}: {what}.") from None


def _token(text: str, num_vocab: int) -> Token:
    if not (text.isascii() and text.isdigit() and int(text[:20]) < num_vocab):
        raise InvalidValue(
            "logit_bias",
            f"logit_bias: '{text[:40]}' is not a token id from 0 to {num_vocab - 1}.",
        )
    return Token(int(text))
