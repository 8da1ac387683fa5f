"""Whether a KV type may be trusted: thresholds, and the sentence that says which was crossed.

docs/kv-quality.md gives the reason of each threshold and the noise that it stands above.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from edgekv.quality.measures import Measured, NeedleScore, ProseScore

MOST_LOST = 0.05
"""Part of the answers that f16 finds and the KV type loses, those that it gains taken off."""
MOST_FALL = 0.25
"""Nats that the log-probability of a right answer may fall by, on average."""
MOST_DIVERGENCE = 0.02
"""Nats a token, on average of all prose at one length."""
MOST_P99_DIVERGENCE = 0.3
LEAST_AGREEMENT = 0.93
MOST_PERPLEXITY_RATIO = 1.03


def objections(measured: Measured) -> tuple[str, ...]:
    """Why a KV type may not be trusted; none if it may. `measured` holds one trial at least."""
    found: list[str] = []
    for words, as_json in (("answers", False), ("tool calls", True)):
        scores = [score for score in measured.needles if score.as_json is as_json]
        found += _retrieval(words, scores)
    for score in measured.prose:
        found += _divergence(score)
    return tuple(found)


def is_settled(measured: Measured) -> bool:
    """Whether a KV type is refused whatever longer texts show. What a few questions lose, others
    may gain; but each length has to predict its prose well.
    """
    return any(True for score in measured.prose for _ in _divergence(score))


def _retrieval(words: str, scores: Sequence[NeedleScore]) -> Iterator[str]:
    lost = sum(s.reference_exact and not s.exact for s in scores)
    gained = sum(s.exact and not s.reference_exact for s in scores)
    # One answer is chance: rounding alone turns a tie.
    if lost - gained > max(1, int(MOST_LOST * len(scores))):
        yield f"it loses {lost} of {len(scores)} {words} that f16 finds, and gains {gained}"
    fall = statistics.fmean(s.reference_logprob - s.logprob for s in scores)
    if fall > MOST_FALL:
        yield (f"right {words} are {fall:.2f} nats less likely on average, more than {MOST_FALL}")


def _divergence(score: ProseScore) -> Iterator[str]:
    where = f"after {score.length:,} tokens"
    if score.mean_divergence > MOST_DIVERGENCE:
        yield (
            f"{where} its predictions diverge by {score.mean_divergence:.4f} nats a token, "
            f"more than {MOST_DIVERGENCE}"
        )
    if score.p99_divergence > MOST_P99_DIVERGENCE:
        yield (
            f"{where} one prediction in a hundred diverges by {score.p99_divergence:.2f} nats "
            f"or more, more than {MOST_P99_DIVERGENCE}"
        )
    if score.agreement < LEAST_AGREEMENT:
        yield (
            f"{where} it finds another token likeliest in {1 - score.agreement:.1%} of the cases, "
            f"more than {1 - LEAST_AGREEMENT:.0%}"
        )
    if score.perplexity_ratio > MOST_PERPLEXITY_RATIO:
        yield (
            f"{where} perplexity grows by {score.perplexity_ratio - 1:.1%}, "
            f"more than {MOST_PERPLEXITY_RATIO - 1:.0%}"
        )
