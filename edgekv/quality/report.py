"""A verdict as lines of text for people."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from edgekv.budget.kv_types import pair_name
from edgekv.quality.measures import NeedleScore
from edgekv.quality.verdicts import REFERENCE, Verdict


def title(verdict: Verdict) -> str:
    """What was compared with what, in a phrase."""
    if verdict.pair == REFERENCE:
        return f"{pair_name(REFERENCE)} in other pieces"
    return pair_name(verdict.pair)


def outcome(verdict: Verdict) -> str:
    """What the gate says of it, in a sentence without its reasons."""
    extent = "the quick check" if verdict.quick else "the full gate"
    noise = verdict.pair == REFERENCE
    if not verdict.passed:
        return "Rounding alone crosses a limit" if noise else f"REFUSED by {extent}"
    words = "Rounding alone stays within the limits of" if noise else "PASSED"
    return f"{words} {extent}, up to {verdict.longest:,} tokens"


def report(verdict: Verdict) -> Iterator[str]:
    yield f"{verdict.model}: {title(verdict)} against {pair_name(REFERENCE)}"
    yield f"computed by {verdict.computed_by}"
    yield ""
    yield "  tokens   answers found       tool calls found    right answers"
    yield "           f16       this      f16       this      less likely by"
    for length in sorted({score.length for score in verdict.measured.needles}):
        yield _retrieval(length, [s for s in verdict.measured.needles if s.length == length])
    yield ""
    yield "  tokens   divergence    1 in 100    same token    perplexity"
    for score in verdict.measured.prose:
        yield (
            f"  {score.length:>6,}   {score.mean_divergence:<11.4f}   {score.p99_divergence:<9.3f}"
            f"   {score.agreement:<11.1%}   x {score.perplexity_ratio:.3f}"
        )
    yield ""
    yield f"{outcome(verdict)}{'.' if verdict.passed else ':'}"
    yield from (f"  - {objection}" for objection in verdict.objections)


def _retrieval(length: int, scores: list[NeedleScore]) -> str:
    cells = [f"  {length:>6,}  "]
    for as_json in (False, True):
        asked = [score for score in scores if score.as_json is as_json]
        before, after = sum(s.reference_exact for s in asked), sum(s.exact for s in asked)
        cells.append(f" {f'{before} of {len(asked)}':<9} {f'{after} of {len(asked)}':<9}")
    fall = fmean(score.reference_logprob - score.logprob for score in scores)
    return "".join(cells) + f" {fall:.3f} nats"
