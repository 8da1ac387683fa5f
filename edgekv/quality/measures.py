"""What a comparison measured, as numbers for people and for the gate."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

import msgspec

from edgekv.core.comparison import Likeness


class NeedleScore(msgspec.Struct, frozen=True):
    """One hidden fact asked for. Log-probabilities are of the whole answer, in nats."""

    length: int
    """Tokens before the question."""
    depth: float
    as_json: bool
    reference_logprob: float
    logprob: float
    reference_exact: bool
    """Whether the right answer is what greedy decoding would write."""
    exact: bool

    @property
    def fall(self) -> float:
        """Nats by which the right answer got less likely."""
        return self.reference_logprob - self.logprob


class ProseScore(msgspec.Struct, frozen=True):
    """How prose is predicted after so many tokens."""

    length: int
    num_tokens: int
    mean_divergence: float
    """Kullback-Leibler divergence in nats."""
    p99_divergence: float
    agreement: float
    """Part of the tokens where both find the same one likeliest."""
    reference_logprob: float
    """Mean of a token, in nats."""
    logprob: float

    @property
    def perplexity_ratio(self) -> float:
        return math.exp(self.reference_logprob - self.logprob)


class Measured(msgspec.Struct, frozen=True):
    needles: tuple[NeedleScore, ...] = ()
    prose: tuple[ProseScore, ...] = ()


def together(parts: Iterable[Measured]) -> Measured:
    needles, prose = list[NeedleScore](), list[ProseScore]()
    for part in parts:
        needles += part.needles
        prose += part.prose
    return Measured(tuple(needles), tuple(prose))


def needle_score(length: int, depth: float, likeness: Likeness, *, as_json: bool) -> NeedleScore:
    return NeedleScore(
        length,
        depth,
        as_json,
        sum(likeness.reference_logprobs),
        sum(likeness.logprobs),
        all(likeness.reference_hits),
        all(likeness.hits),
    )


def prose_score(length: int, likeness: Likeness) -> ProseScore:
    divergences = sorted(likeness.divergences)
    return ProseScore(
        length,
        len(divergences),
        statistics.fmean(divergences),
        divergences[min(len(divergences) - 1, round(0.99 * len(divergences)))],
        statistics.fmean(likeness.agreements),
        statistics.fmean(likeness.reference_logprobs),
        statistics.fmean(likeness.logprobs),
    )
