"""Bars and curves as SVG that reads in light and in dark, without a library for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, ROW, LEFT, RIGHT = 720, 24, 210, 90
PLOT_HEIGHT, TOP, BOTTOM = 220, 56, 44
COLOURS = ("#8a8a8a", "#2f7ed8", "#b58900", "#7b5ea7", "#3a9d5d")
"""The first is for what the others are held against."""
STYLE = (
    "<style>text{font:13px sans-serif;fill:#24292f}.t{font-weight:bold}.s{fill:#6e7781}"
    ".g{stroke:#d0d7de}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.s{fill:#9198a1}"
    ".g{stroke:#3d444d}}</style>"
)


def bars(title: str, groups: Mapping[str, Mapping[str, float | None]]) -> str:
    """Each group a heading and a bar for each name; None is drawn as what did not finish."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    parts, y = [_text(12, 24, title, "t")], 40
    for heading, group in groups.items():
        longest = max((value for value in group.values() if value), default=1.0)
        parts.append(_text(12, y + 18, heading, "s"))
        y += ROW + 2
        for name, value in group.items():
            parts.append(_text(LEFT - 8, y + 16, name, end=True))
            length = (value or 0) / longest * (WIDTH - LEFT - RIGHT)
            colour = COLOURS[names.index(name) % len(COLOURS)]
            if value is not None:
                parts.append(_box(LEFT, y + 4, length, ROW - 8, colour))
            told = "did not finish" if value is None else f"{value:,.4g}"
            parts.append(_text(LEFT + length + 6, y + 16, told))
            y += ROW
        y += 8
    return _page(y + 8, parts)


def curves(title: str, unit: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Lines over a logarithmic x axis from 0 upwards; each series is named with its x."""
    most = 1.1 * max(y for points in series.values() for _, y in points)
    parts = [_text(12, 24, title, "t"), _text(12, 44, unit, "s")]
    width = (WIDTH - 60) / len(series)
    for number, (name, points) in enumerate(series.items()):
        left = 50 + number * width
        parts += _axes(left, width - 30, name, points, most)
        spots = [(_x(x, points, left, width - 30), _y(y, most)) for x, y in points]
        colour = COLOURS[1 + number % (len(COLOURS) - 1)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in spots]
    return _page(TOP + PLOT_HEIGHT + BOTTOM, parts)


def _axes(
    left: float, width: float, name: str, points: Sequence[tuple[float, float]], most: float
) -> list[str]:
    bottom = TOP + PLOT_HEIGHT
    parts = []
    for part in (0.0, 0.5, 1.0):
        y = bottom - part * PLOT_HEIGHT
        parts.append(f'<path class="g" d="M{left:.1f} {y:.1f}H{left + width:.1f}"/>')
        parts.append(_text(left - 4, y + 4, f"{part * most:.2g}", "s", end=True))
    for x in (points[0][0], points[-1][0]):
        parts.append(_text(_x(x, points, left, width), bottom + 16, f"{x:,.0f}", "s", middle=True))
    return [*parts, _text(left + width / 2, bottom + 34, name, middle=True)]


def _x(x: float, points: Sequence[tuple[float, float]], left: float, width: float) -> float:
    low, high = math.log(points[0][0]), math.log(points[-1][0])
    return left + width * (math.log(x) - low) / (high - low)


def _y(y: float, most: float) -> float:
    return TOP + PLOT_HEIGHT * (1 - y / most)


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width:.1f}" height="{height}" fill="{colour}" rx="2"/>'


def _text(
    x: float, y: float, words: str, kind: str = "", *, end: bool = False, middle: bool = False
) -> str:
    anchor = ' text-anchor="end"' if end else ' text-anchor="middle"' if middle else ""
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{named}{anchor}>{escape(words)}</text>'


def _page(height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}">'
    return "\n".join([head, STYLE, *parts, "</svg>", ""])
