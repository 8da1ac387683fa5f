"""A verdict as lines of text for people."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from edgekv.budget.kv_types import pair_name
from edgekv.quality.measures import NeedleScore, ProseScore
from edgekv.quality.verdicts import REFERENCE, Verdict


def outcome(verdict: Verdict) -> str:
    """What the gate says of it, without its reasons."""
    extent = "the quick check" if verdict.quick else "the full gate"
    if verdict.passed:
        return f"PASSED {extent}, up to {verdict.longest:,} tokens"
    return f"REFUSED by {extent}"


def report(verdict: Verdict) -> Iterator[str]:
    yield f"{verdict.model}: {pair_name(verdict.pair)} against {pair_name(REFERENCE)}"
    yield f"computed by {verdict.computed_by}"
    yield ""
    yield "  tokens   answers found       tool calls found    right answers"
    yield "           f16       this      f16       this      less likely by"
    for length in sorted({score.length for score in verdict.measured.needles}):
        yield _retrieval(length, [s for s in verdict.measured.needles if s.length == length])
    yield ""
    yield "  tokens   divergence    1 in 100    same token    perplexity"
    noises = {score.length: score for score in verdict.noise.prose}
    for score in verdict.measured.prose:
        yield _divergence(f"{score.length:,}", score)
        yield _divergence("noise", noises[score.length])
    yield "  noise: f16 against itself, computed in other pieces"
    yield ""
    yield f"{outcome(verdict)}{'.' if verdict.passed else ':'}"
    yield from (f"  - {objection}" for objection in verdict.objections)


def _divergence(name: str, score: ProseScore) -> str:
    return (
        f"  {name:>6}   {score.mean_divergence:<11.4f}   {score.p99_divergence:<9.3f}"
        f"   {score.agreement:<11.1%}   x {score.perplexity_ratio:.3f}"
    )


def _retrieval(length: int, scores: list[NeedleScore]) -> str:
    cells = [f"  {length:>6,}  "]
    for as_json in (False, True):
        asked = [score for score in scores if score.as_json is as_json]
        before, after = sum(s.reference_exact for s in asked), sum(s.exact for s in asked)
        cells.append(f" {f'{before} of {len(asked)}':<9} {f'{after} of {len(asked)}':<9}")
    fall = fmean(score.fall for score in scores)
    return "".join(cells) + f" {fall:.3f} nats"
