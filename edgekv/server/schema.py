"""What a request may ask, and the refusal of everything else by name.

Numbers of OpenAI's parameters have OpenAI's documented ranges. A null is the same as leaving a
field out.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from edgekv.core.request import Priority, SamplingParams, Token
from edgekv.errors import InvalidValue, RequestError, UnsupportedOption

LARGEST_COUNT = 2**31 - 1
"""llama.cpp counts in 32 bits with a sign."""

Count = Annotated[int, Meta(ge=1, le=LARGEST_COUNT)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Share = Annotated[float, Meta(ge=0, le=1)]
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
TokenId = Annotated[int, Meta(ge=0, le=LARGEST_COUNT)]
StopText = Annotated[str, Meta(min_length=1)]
NumChoices = Annotated[int, Meta(ge=1, le=16)]
NumLikeliest = Annotated[int, Meta(ge=0, le=20)]

IGNORED = frozenset(
    {"user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"}
)
"""Fields that say something about the caller and nothing about the answer."""

Neutral: TypeAlias = dict[str, tuple[Any, ...]]
"""Fields that an endpoint does not know → values that ask for nothing beyond an answer."""

NEUTRAL: Neutral = {
    "audio": (),
    "best_of": (1,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "modalities": (["text"],),
    "moderation": (),
    "prediction": (),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "suffix": ("",),
    "verbosity": (),
    "web_search_options": (),
}
"""Those of both kinds of completions."""


class StreamOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class SamplingFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What all answers have in common."""

    model: str | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Share | None = None
    top_k: Annotated[int, Meta(ge=0, le=LARGEST_COUNT)] | None = None
    min_p: Share | None = None
    seed: Seed | None = None
    priority: Priority | None = None
    deadline_ms: Count | None = None
    stream: bool | None = None

    def sampling(self, num_vocab: int) -> SamplingParams:
        """The sampling asked for. Raises `InvalidValue` for what this vocabulary has not."""
        names = set(SamplingParams.__struct_fields__) - {"logit_bias", "grammar", "top_logprobs"}
        given = {name: getattr(self, name, None) for name in names}
        return SamplingParams(**{name: value for name, value in given.items() if value is not None})


class Generation(SamplingFields, frozen=True, kw_only=True):
    """What chat and text completions have in common."""

    neutral: ClassVar[Neutral] = NEUTRAL

    max_tokens: Count | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repeat_penalty: Annotated[float, Meta(ge=0.01, le=2)] | None = None
    logit_bias: dict[str, Annotated[float, Meta(ge=-100, le=100)]] | None = None
    stop: StopText | Annotated[list[StopText], Meta(max_length=16)] | None = None
    n: NumChoices | None = None
    ignore_eos: bool | None = None
    cache_prompt: bool | None = None
    stream_options: StreamOptions | None = None

    @property
    def num_choices(self) -> int:
        return 1 if self.n is None else self.n

    @property
    def num_likeliest(self) -> int | None:
        """How many likeliest tokens to tell for each of the answer; None: no likelihoods."""
        return None

    def sampling(self, num_vocab: int) -> SamplingParams:
        biases = (self.logit_bias or {}).items()
        return replace(
            super().sampling(num_vocab),
            logit_bias=tuple((_token(text, num_vocab), bias) for text, bias in biases),
            top_logprobs=self.num_likeliest,
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
        if self.cache_prompt is False:
            raise UnsupportedOption("cache_prompt", "prompts are cached always, so leave it out")


class Checked(Protocol):
    __struct_fields__: ClassVar[tuple[str, ...]]
    neutral: ClassVar[Neutral]

    def check(self) -> None:
        """Raise for fields that make no sense together."""


R = TypeVar("R", bound=Checked)


def parse(body: bytes, kind: type[R]) -> R:
    """A checked request; raises `RequestError` for one that cannot be honoured in full."""
    fields = _object(body)
    wanted = {
        name: value
        for name, value in fields.items()
        if name not in IGNORED and not _asks_nothing(kind.neutral, name, value)
    }
    for name in wanted:
        if name not in kind.__struct_fields__:
            raise UnsupportedOption(name)
    try:
        request = msgspec.convert(wanted, kind)
    except msgspec.ValidationError as error:
        raise _readable(error) from None
    request.check()
    return request


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


def _asks_nothing(neutral: Neutral, name: str, value: object) -> bool:
    # `type` keeps True from passing as 1.
    return name in neutral and (
        value is None or any(type(value) is type(n) and value == n for n in neutral[name])
    )


def _readable(error: msgspec.ValidationError) -> RequestError:
    """msgspec ends its message with where it was: "Expected `int` >= 1 - at `$.max_tokens`"."""
    what, _, where = str(error).partition(" - at `$")
    param = where.strip("`.")
    if unknown := re.fullmatch("Object contains unknown field `(.*)`", what, re.DOTALL):
        return UnsupportedOption(f"{param}.{unknown[1]}")
    return InvalidValue(param or "body", f"{param}: {what}." if param else f"{what}.")


def _token(text: str, num_vocab: int) -> Token:
    # A second spelling of a token, like 01, would be a second bias.
    if not (re.fullmatch("0|[1-9][0-9]{0,9}", text) and int(text) < num_vocab):
        raise InvalidValue(
            "logit_bias",
            f"logit_bias: '{text[:40]}' is not a token id from 0 to {num_vocab - 1}.",
        )
    return Token(int(text))
