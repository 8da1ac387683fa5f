"""A figure of several KV types by the length of the text, as an SVG drawing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 680, 300
LEFT, RIGHT, TOP, BOTTOM = 70, 130, 16, 48
LABEL_HEIGHT = 15
LEAST_VALUE = 1e-5
"""What a logarithmic scale shows in the place of 0."""
COLOURS = (
    "#3b82c4", "#d9730d", "#2f9e6e", "#9b6dd0", "#d0588f",
    "#8a8a8a", "#7a8f00", "#00a0a8", "#a9744f", "#6674e5",
)  # fmt: skip
"""Each is told from white and from black; more curves than these repeat them."""
LIMIT_COLOUR = "#d33"


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    points: tuple[tuple[int, float], ...]
    """Tokens, and the value there, from the shortest text on; one at least."""


def chart(curves: Sequence[Curve], limit: Curve, unit: str) -> str:
    """Both scales are logarithmic. `unit` says what is drawn, and in what."""
    scale = _Scale.of((*curves, limit))
    parts = (
        *_grid(scale, unit),
        *_lengths(scale, curves),
        *_limit(scale, limit),
        *(part for number, curve in enumerate(curves) for part in _curve(scale, number, curve)),
        *_names(scale, curves),
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(unit)}" '
        f'fill="currentColor" font-size="12">{"".join(parts)}</svg>'
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    shortest: int
    longest: int
    least: int
    """The exponent of ten at the bottom."""
    most: int

    @classmethod
    def of(cls, curves: Sequence[Curve]) -> _Scale:
        lengths = [length for curve in curves for length, _ in curve.points]
        values = [_shown(value) for curve in curves for _, value in curve.points]
        return cls(
            min(lengths),
            max(lengths),
            math.floor(math.log10(min(values))),
            math.ceil(math.log10(max(values))),
        )

    def across(self, length: int) -> float:
        """Lengths double from one to the next, so they stand evenly."""
        extent = WIDTH - LEFT - RIGHT
        if self.shortest == self.longest:
            return LEFT + extent / 2
        return LEFT + extent * math.log(length / self.shortest) / math.log(
            self.longest / self.shortest
        )

    def down(self, value: float) -> float:
        part = (math.log10(_shown(value)) - self.least) / max(1, self.most - self.least)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part


def _shown(value: float) -> float:
    return max(value, LEAST_VALUE)


def _grid(scale: _Scale, unit: str) -> Iterator[str]:
    for exponent in range(scale.least, scale.most + 1):
        y = scale.down(10.0**exponent)
        yield (
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            'stroke="currentColor" stroke-opacity=".2"/>'
        )
        yield _text(LEFT - 8, y + 4, f"{10.0**exponent:g}", "end")
    middle = (TOP + HEIGHT - BOTTOM) / 2
    yield (
        f'<text transform="translate(14 {middle:.1f}) rotate(-90)" text-anchor="middle">'
        f"{escape(unit)}</text>"
    )


def _lengths(scale: _Scale, curves: Sequence[Curve]) -> Iterator[str]:
    bottom = HEIGHT - BOTTOM
    for length in sorted({length for curve in curves for length, _ in curve.points}):
        x = scale.across(length)
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 5}" '
            'stroke="currentColor"/>'
        )
        yield _text(x, bottom + 18, f"{length:,}", "middle")
    yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "tokens of the text", "middle")


def _limit(scale: _Scale, limit: Curve) -> Iterator[str]:
    points = [(scale.across(length), scale.down(value)) for length, value in limit.points]
    # To both sides, so that a single point is seen as well.
    (_, start), (_, end) = points[0], points[-1]
    whole = ((LEFT, start), *points, (WIDTH - RIGHT, end))
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in whole)
    yield (
        f'<polyline points="{line}" fill="none" stroke="{LIMIT_COLOUR}" stroke-dasharray="6 4"/>'
    )
    yield _text(LEFT + 8, start - 6, limit.name, "start", LIMIT_COLOUR)


def _curve(scale: _Scale, number: int, curve: Curve) -> Iterator[str]:
    colour = _colour(number)
    points = [(scale.across(length), scale.down(value)) for length, value in curve.points]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for (x, y), (length, value) in zip(points, curve.points, strict=True):
        yield (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}">'
            f"<title>{escape(curve.name)}, {length:,} tokens: {value:.4f}</title></circle>"
        )


def _names(scale: _Scale, curves: Sequence[Curve]) -> Iterator[str]:
    """Beside the last point of each curve, or next to it where there is another name."""
    ends = sorted(
        (scale.down(curve.points[-1][1]), number, curve) for number, curve in enumerate(curves)
    )
    for y, (_, number, curve) in zip(_apart([y + 4 for y, *_ in ends]), ends, strict=True):
        x = scale.across(curve.points[-1][0]) + 10
        yield _text(x, y, curve.name, "start", _colour(number))


def _apart(heights: Sequence[float]) -> list[float]:
    """Sorted heights, moved so that names do not cover each other: down, and up from the axis."""
    moved = list(heights)
    for place in range(1, len(moved)):
        moved[place] = max(moved[place], moved[place - 1] + LABEL_HEIGHT)
    most = float(HEIGHT - BOTTOM)
    for place in reversed(range(len(moved))):
        moved[place] = min(moved[place], most)
        most = moved[place] - LABEL_HEIGHT
    return moved


def _text(x: float, y: float, words: str, anchor: str, colour: str = "currentColor") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">'
        f"{escape(words)}</text>"
    )


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]
