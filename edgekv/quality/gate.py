"""Whether a KV type may be trusted: thresholds, and the sentence that says which was crossed.

Each limits the harm beyond what rounding alone does on the same model and text, which differs
tenfold from model to model. docs/kv-quality.md gives the reasons and the noise of real models.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from edgekv.quality.measures import Measured, NeedleScore, ProseScore

MOST_LOST = 0.05
"""Part of the answers that f16 finds and the KV type loses, those that it gains taken off."""
MOST_FALL = 0.25
"""Nats that the log-probability of a right answer may fall by, on average."""
STANDARD_ERRORS = 2
"""By so many rounding alone moves an average one time in forty upwards."""
MOST_DIVERGENCE = 0.02
"""Nats a token, on average of all prose at one length."""
MOST_P99_DIVERGENCE = 0.3
MOST_DISAGREEMENT = 0.05
MOST_PERPLEXITY_RATIO = 1.03


def objections(measured: Measured, noise: Measured) -> tuple[str, ...]:
    """Why a KV type may not be trusted; none if it may. `noise` is of f16 in other pieces, on the
    same trials, of which there is one at least.
    """
    found: list[str] = []
    for words, as_json in (("answers", False), ("tool calls", True)):
        lengths = {score.length for score in measured.prose}
        found += _retrieval(
            words,
            [score for score in measured.needles if score.as_json is as_json],
            [s for s in noise.needles if s.as_json is as_json and s.length in lengths],
        )
    return (*found, *_diverging(measured, noise))


def is_settled(measured: Measured, noise: Measured) -> bool:
    """Whether a KV type is refused whatever longer texts show. What a few questions lose, others
    may gain; but each length has to predict its prose well.
    """
    return any(True for _ in _diverging(measured, noise))


def divergence_limit(noise: ProseScore) -> float:
    return noise.mean_divergence + MOST_DIVERGENCE


def p99_limit(noise: ProseScore) -> float:
    return noise.p99_divergence + MOST_P99_DIVERGENCE


def agreement_limit(noise: ProseScore) -> float:
    return noise.agreement - MOST_DISAGREEMENT


def perplexity_limit(noise: ProseScore) -> float:
    """Rounding turns it up or down, as it happens."""
    ratio = noise.perplexity_ratio
    return MOST_PERPLEXITY_RATIO * max(ratio, 1 / ratio)


def lost_limit(num_asked: int, noise: Sequence[NeedleScore]) -> float:
    """Where two tokens are nearly tied rounding turns an answer either way, and
    what it turns in all adds up to its square root.
    """
    num_turned = sum(score.reference_exact is not score.exact for score in noise)
    # One is chance even if rounding turned none this time.
    return max(1, int(MOST_LOST * num_asked)) + STANDARD_ERRORS * math.sqrt(num_turned)


def fall_limit(noise: Sequence[NeedleScore]) -> float:
    """Of an average over as many answers. Rounding moves an answer up or down by more than a type
    may, where a model is not sure of it; that averages out, but for its standard error.
    """
    root_mean_square = math.sqrt(statistics.fmean(score.fall**2 for score in noise))
    return MOST_FALL + STANDARD_ERRORS * root_mean_square / math.sqrt(len(noise))


def _retrieval(
    words: str, scores: Sequence[NeedleScore], noise: Sequence[NeedleScore]
) -> Iterator[str]:
    lost = sum(s.reference_exact and not s.exact for s in scores)
    gained = sum(s.exact and not s.reference_exact for s in scores)
    if lost - gained > lost_limit(len(scores), noise):
        yield f"it loses {lost} of {len(scores)} {words} that f16 finds, and gains {gained}"
    fall = statistics.fmean(score.fall for score in scores)
    if fall > (limit := fall_limit(noise)):
        yield f"right {words} are {fall:.2f} nats less likely on average, more than {limit:.2f}"


def _diverging(measured: Measured, noise: Measured) -> Iterator[str]:
    noises = {score.length: score for score in noise.prose}
    for score in measured.prose:
        yield from _divergence(score, noises[score.length])


def _divergence(score: ProseScore, noise: ProseScore) -> Iterator[str]:
    where = f"after {score.length:,} tokens"
    if score.mean_divergence > (limit := divergence_limit(noise)):
        yield (
            f"{where} its predictions diverge by {score.mean_divergence:.4f} nats a token, "
            f"more than {limit:.4f}"
        )
    if score.p99_divergence > (limit := p99_limit(noise)):
        yield (
            f"{where} one prediction in a hundred diverges by {score.p99_divergence:.2f} nats "
            f"or more, more than {limit:.2f}"
        )
    if score.agreement < (limit := agreement_limit(noise)):
        yield (
            f"{where} it finds another token likeliest in {1 - score.agreement:.1%} of the cases, "
            f"more than {1 - limit:.1%}"
        )
    if score.perplexity_ratio > (limit := perplexity_limit(noise)):
        yield (
            f"{where} perplexity grows by {score.perplexity_ratio - 1:.1%}, "
            f"more than {limit - 1:.1%}"
        )
