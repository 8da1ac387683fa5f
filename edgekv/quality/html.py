"""Verdicts on one model as a page: what was found where, and how predictions diverge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from statistics import fmean

from edgekv.budget.kv_types import pair_name
from edgekv.quality.curves import Curve, chart
from edgekv.quality.gate import divergence_limit, p99_limit
from edgekv.quality.measures import Measured, NeedleScore, ProseScore
from edgekv.quality.report import outcome
from edgekv.quality.verdicts import REFERENCE, Verdict

SUMMARY = (
    "KV type",
    "Verdict",
    "Answers",
    "Tool calls",
    "Less likely by",
    "Divergence",
    "1 in 100",
    "Same token",
    "Perplexity",
)
ROUNDING = "rounding alone"
WORST_FALL = 2.0
"""Nats from which a cell of the heat map is as red as it gets."""
STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
table { border-collapse: collapse; margin: .5rem 0 }
td, th { padding: .25rem .5rem; text-align: right; font-variant-numeric: tabular-nums }
th { font-weight: 600 }
.summary td, .summary th { border-bottom: 1px solid #8886 }
.summary td { white-space: nowrap }
.summary td:first-child, .summary th:first-child { text-align: left }
.cell { border: 1px solid #8886; font-size: .85rem; white-space: nowrap }
.maps { display: flex; flex-wrap: wrap; gap: 0 2.5rem }
.map { overflow-x: auto }
svg { width: 100%; max-width: 54rem; height: auto; display: block }
"""


def page(verdicts: Sequence[Verdict]) -> str:
    """A whole HTML document that needs nothing from elsewhere. All verdicts are on one model."""
    first = verdicts[0]
    heading = escape(f"{first.model}: KV types against {pair_name(REFERENCE)}")
    divergence = _chart(
        verdicts, lambda s: s.mean_divergence, divergence_limit, "nats a token, mean"
    )
    worst = _chart(verdicts, lambda s: s.p99_divergence, p99_limit, "nats, one token in a hundred")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>{heading}</title>
<style>{STYLE}</style></head><body>
<h1>{heading}</h1>
<p>Computed by {escape(first.computed_by)}.</p>
{_summary(verdicts)}
<h2>How far predictions diverge</h2>
<p>Kullback-Leibler divergence from f16 in nats, over prose that goes on after so many tokens.
Rounding alone is f16 against itself, computed in other pieces; the limit stands above it.</p>
{divergence}{worst}
<h2>Hidden facts</h2>
<p>Rows: how deep in the text the fact is, from its beginning down. Columns: tokens of the text.
The number is by how many nats the right answer is less likely than with f16; a mark says whether
greedy decoding finds it (&#10003;) or not (&#10007;), first with f16, then with the type.</p>
{_legend()}
{"".join(map(_found, verdicts))}
</body></html>
"""


def _summary(verdicts: Sequence[Verdict]) -> str:
    head = "".join(f"<th>{name}</th>" for name in SUMMARY)
    return (
        f'<div class="map"><table class="summary"><tr>{head}</tr>'
        f"{_summary_row(ROUNDING, '', _noise(verdicts))}"
        f"{''.join(map(_verdict_row, verdicts))}</table></div>"
        "<p>Answers and tool calls: how many are found with f16 and with the type. Divergence, in "
        "nats, and what follows it are the worst of all lengths.</p>"
    )


def _noise(verdicts: Sequence[Verdict]) -> Measured:
    """As far as it was measured; all verdicts of a run have the same, or the beginning of it."""
    return max((verdict.noise for verdict in verdicts), key=lambda noise: len(noise.prose))


def _verdict_row(verdict: Verdict) -> str:
    word = f"passed to {verdict.longest:,}" if verdict.passed else "refused"
    return _summary_row(pair_name(verdict.pair), word, verdict.measured)


def _summary_row(name: str, word: str, measured: Measured) -> str:
    needles, prose = measured.needles, measured.prose
    fall = fmean(score.fall for score in needles)
    cells = (
        escape(name),
        word,
        *(_found_of([s for s in needles if s.as_json is as_json]) for as_json in (False, True)),
        f"{round(fall, 3) + 0.0:.3f} nats",
        f"{max(score.mean_divergence for score in prose):.4f}",
        f"{max(score.p99_divergence for score in prose):.3f}",
        f"{min(score.agreement for score in prose):.1%}",
        f"&times; {max(score.perplexity_ratio for score in prose):.3f}",
    )
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _found_of(scores: Sequence[NeedleScore]) -> str:
    before, after = sum(s.reference_exact for s in scores), sum(s.exact for s in scores)
    return f"{before} &rarr; {after} of {len(scores)}"


def _chart(
    verdicts: Sequence[Verdict],
    value: Callable[[ProseScore], float],
    limit: Callable[[ProseScore], float],
    unit: str,
) -> str:
    noise = _noise(verdicts)
    curves = [_curve(pair_name(verdict.pair), verdict.measured, value) for verdict in verdicts]
    curves.append(_curve(ROUNDING, noise, value))
    return chart(curves, _curve("limit", noise, limit), unit)


def _curve(name: str, measured: Measured, value: Callable[[ProseScore], float]) -> Curve:
    return Curve(name, tuple((score.length, value(score)) for score in measured.prose))


def _found(verdict: Verdict) -> str:
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in verdict.objections)
    return (
        f"<h3>{escape(pair_name(verdict.pair))}</h3><p><strong>{escape(outcome(verdict))}</strong></p>"
        + (f"<ul>{reasons}</ul>" if reasons else "")
        + f'<div class="maps"><div class="map"><h4>Asked in words</h4>'
        f"{_heat_map(verdict, as_json=False)}</div>"
        f'<div class="map"><h4>Asked as a tool call</h4>'
        f"{_heat_map(verdict, as_json=True)}</div></div>"
    )


def _heat_map(verdict: Verdict, *, as_json: bool) -> str:
    scores = [score for score in verdict.measured.needles if score.as_json is as_json]
    lengths = sorted({score.length for score in scores})
    depths = sorted({score.depth for score in scores})
    head = "".join(f"<th>{length:,}</th>" for length in lengths)
    rows = ""
    for depth in depths:
        cells = "".join(
            _cell(score)
            for length in lengths
            for score in scores
            if (score.length, score.depth) == (length, depth)
        )
        rows += f"<tr><th>{depth:.0%}</th>{cells}</tr>"
    return f"<table><tr><th>depth \\ tokens</th>{head}</tr>{rows}</table>"


def _cell(score: NeedleScore) -> str:
    fall = round(score.fall, 2) or 0.0
    marks = "".join("&#10003;" if ok else "&#10007;" for ok in (score.reference_exact, score.exact))
    return f'<td class="cell" style="background: {_shade(fall)}">{fall:+.2f} {marks}</td>'


def _legend() -> str:
    cells = "".join(
        f'<td class="cell" style="background: {_shade(fall)}">{fall:+g}</td>'
        for fall in (-WORST_FALL, -0.5, 0.0, 0.5, 1.0, WORST_FALL)
    )
    return (
        f"<table><tr><th>nats less likely</th>{cells}<td>and more</td></tr></table>"
        "<p>Blue is more likely than with f16, orange less.</p>"
    )


def _shade(fall: float) -> str:
    """Seen on white and on black alike, and without telling red from green."""
    strength = min(1.0, abs(fall) / WORST_FALL)
    hue = "230 90 20" if fall > 0 else "40 120 220"
    return f"rgb({hue} / {0.75 * strength:.2f})"
