"""A verdict as one page: the heat map of what was found where, and how predictions diverge."""

from __future__ import annotations

import math
from html import escape

from edgekv.quality.gate import MOST_DIVERGENCE
from edgekv.quality.measures import NeedleScore
from edgekv.quality.verdicts import Verdict

WIDTH, HEIGHT, MARGIN = 560, 200, 44
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 50rem; padding: 0 1rem }
table { border-collapse: collapse } td, th { padding: .3rem .6rem; text-align: center }
td.cell { border: 1px solid #8886; font-size: .8rem } svg { max-width: 100% }
:root { color-scheme: light dark }
"""


def page(verdict: Verdict) -> str:
    """A whole HTML document that needs nothing from elsewhere."""
    types = f"{verdict.kv_type_k} / {verdict.kv_type_v}"
    title = escape(f"{verdict.model}: {types} against f16")
    outcome = "passed" if verdict.passed else "refused"
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in verdict.objections)
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>
<h1>{title}</h1>
<p><strong>{outcome}</strong>, up to {verdict.longest:,} tokens; {escape(verdict.computed_by)}.</p>
<ul>{reasons}</ul>
<h2>Hidden facts</h2>
<p>Rows: how deep in the text, from its beginning down. Columns: tokens of the text. The number is
by how many nats the right answer is less likely than with f16; a mark says that greedy decoding
finds it (&#10003;) or not (&#10007;), first with f16, then with {escape(types)}.</p>
<h3>Asked in words</h3>{_heat_map(verdict, as_json=False)}
<h3>Asked as a tool call</h3>{_heat_map(verdict, as_json=True)}
<h2>Divergence of predictions</h2>
<p>Mean Kullback-Leibler divergence in nats a token after so many tokens; the line is the limit.</p>
{_curve(verdict)}
</html>
"""


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
    return f"<table><tr><th></th>{head}</tr>{rows}</table>"


def _cell(score: NeedleScore) -> str:
    fall = score.reference_logprob - score.logprob
    harm = min(1.0, max(0.0, fall / 2))
    hue = round(120 * (1 - harm))
    marks = "".join("&#10003;" if ok else "&#10007;" for ok in (score.reference_exact, score.exact))
    return f'<td class="cell" style="background: hsl({hue} 70% 50% / .5)">{fall:+.2f} {marks}</td>'


def _curve(verdict: Verdict) -> str:
    scores = sorted(verdict.measured.prose, key=lambda score: score.length)
    most = max([MOST_DIVERGENCE * 1.5, *(score.mean_divergence for score in scores)])
    points = [
        (_across(score.length, verdict.longest), _down(score.mean_divergence, most))
        for score in scores
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in points)
    labels = "".join(
        f'<text x="{x:.1f}" y="{y - 10:.1f}" text-anchor="middle">'
        f"{score.mean_divergence:.4f}</text>"
        for (x, y), score in zip(points, scores, strict=True)
    )
    limit = _down(MOST_DIVERGENCE, most)
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" fill="currentColor" font-size="12">'
        f'<line x1="{MARGIN}" x2="{WIDTH}" y1="{limit:.1f}" y2="{limit:.1f}" stroke="#c33"/>'
        f'<polyline points="{line}" fill="none" stroke="currentColor"/>{dots}{labels}</svg>'
    )


def _across(length: int, longest: int) -> float:
    """Lengths double from one to the next, so they stand evenly."""
    return MARGIN + (WIDTH - 2 * MARGIN) * math.log2(max(2, length)) / math.log2(max(4, longest))


def _down(value: float, most: float) -> float:
    return HEIGHT - MARGIN / 2 - (HEIGHT - MARGIN) * value / most
