"""What /v1/completions takes."""

from __future__ import annotations

from typing import Any

import msgspec

from edgekv.core.request import Prompt, Segment, TextPrompt, Token, TokenPrompt
from edgekv.errors import InvalidValue
from edgekv.server.schema import Generation, NumLikeliest, TokenId

DEFAULT_MAX_TOKENS = 16
"""OpenAI's; chat has none."""
MOST_PROMPTS = 64


class CompletionRequest(Generation, frozen=True, kw_only=True):
    prompt: str | list[Any]
    suffix: str | None = None
    echo: bool | None = None
    logprobs: NumLikeliest | None = None

    @property
    def token_limit(self) -> int:
        return DEFAULT_MAX_TOKENS if self.max_tokens is None else self.max_tokens

    @property
    def num_likeliest(self) -> int | None:
        return self.logprobs

    def check(self) -> None:
        super().check()
        if self.echo and self.logprobs is not None:
            raise InvalidValue(
                "echo", "echo: the likelihoods of a prompt cannot be told; leave logprobs out."
            )

    def prompts(self) -> list[Prompt]:
        """Raises `InvalidValue` for anything but texts and lists of token ids."""
        return prompts_of("prompt", self.prompt)


def prompts_of(field: str, given: str | list[Any], most: int = MOST_PROMPTS) -> list[Prompt]:
    """One text, one list of token ids, or a list of such; raises `InvalidValue`."""
    match given:
        case str():
            return [_prompt(field, given)]
        case [int(), *_]:
            return [_prompt(field, given)]
        case [_, *_] if len(given) <= most:
            return [_prompt(f"{field}[{i}]", one) for i, one in enumerate(given)]
    raise InvalidValue(
        field,
        f"{field}: send a text, a list of token ids, or a list of up to {most} of these.",
    )


def _prompt(where: str, given: object) -> Prompt:
    if isinstance(given, str):
        # The whole prompt is the caller's, who may mean its control tokens.
        return TextPrompt((Segment(given, control=True),))
    if not isinstance(given, list) or not given:
        raise InvalidValue(where, f"{where}: send a text or a list of token ids.")
    try:
        return TokenPrompt(tuple(map(Token, msgspec.convert(given, list[TokenId]))))
    except msgspec.ValidationError as error:
        what, _, at = str(error).partition(" - at `$")
        raise InvalidValue(where, f"{where}{at.strip('`')}: {what}.") from None
