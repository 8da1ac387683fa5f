"""Ways to keep keys and values, compared with one of them token by token on the same words."""

from __future__ import annotations

import msgspec

from edgekv.core.plan import Opening
from edgekv.core.request import Token


class Scored(msgspec.Struct, frozen=True):
    """A text whose tokens from `scored_from` on are to be predicted, each from those before it."""

    tokens: tuple[Token, ...]
    scored_from: int

    def __post_init__(self) -> None:
        if not 1 <= self.scored_from < len(self.tokens):
            raise ValueError("the first token has nothing before it, and one at least is scored")


class Passage(msgspec.Struct, frozen=True):
    """Texts that may begin alike; what all of them begin with is computed once."""

    texts: tuple[Scored, ...]

    @property
    def shared_length(self) -> int:
        """Tokens that all texts begin with, as far as none of the predictions needs them."""
        first, *others = (text.tokens for text in self.texts)
        most = min(text.scored_from for text in self.texts) - 1
        for length in range(most):
            if any(tokens[length] != first[length] for tokens in others):
                return length
        return most

    @property
    def num_cells(self) -> int:
        shared = self.shared_length
        return shared + sum(len(text.tokens) - shared for text in self.texts)


class Likeness(msgspec.Struct, frozen=True):
    """How two ways predict one text, the reference and a candidate; all tuples have one entry a
    scored token.
    """

    reference_logprobs: tuple[float, ...]
    """Natural logarithms of the probability of the token that is there."""
    logprobs: tuple[float, ...]
    reference_hits: tuple[bool, ...]
    """Whether the likeliest token is the one that is there."""
    hits: tuple[bool, ...]
    agreements: tuple[bool, ...]
    """Whether both find the same token likeliest."""
    divergences: tuple[float, ...]
    """Kullback-Leibler divergence of the candidate from the reference, in nats."""


class OpenComparison(msgspec.Struct, frozen=True, tag=True):
    """Open a model once with a context for each way to keep keys and values."""

    call: int
    reference: Opening
    candidates: tuple[Opening, ...]
    """They differ from the reference in KV types and in how many tokens are computed at once."""


class ComparisonOpened(msgspec.Struct, frozen=True, tag=True):
    call: int


class Compare(msgspec.Struct, frozen=True, tag=True):
    """Ask how candidates predict a passage that fits into the cells opened."""

    call: int
    passage: Passage
    candidates: tuple[int, ...]
    """Which of those opened, by their number from 0 on."""


class Compared(msgspec.Struct, frozen=True, tag=True):
    call: int
    candidates: tuple[tuple[Likeness, ...], ...]
    """Of each candidate asked for, one `Likeness` a text."""
