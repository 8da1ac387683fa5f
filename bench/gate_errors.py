"""How often the gate would say otherwise, had it asked other questions of the same kind.

    python -m bench.gate_errors

draws the questions and pieces of prose of `bench/results/held-out.jsonl` anew, with a fixed seed,
as many as were asked or several times as many, and judges each draw. The part that is refused is
the error of a type that should pass; the rest is that of one that should not. A question is drawn
with what rounding did to it. Prose is drawn in pieces, because a token is not independent of the
last. What all questions have in common, the model above all, is not drawn.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from itertools import groupby

import click

from bench.held_out import ROUNDING, Tried, read
from edgekv.core.comparison import Likeness
from edgekv.quality.gate import objections
from edgekv.quality.measures import Measured, NeedleScore, prose_score, together

PIECE_TOKENS = 16
SEED = 20_261_130
TIMES = (1, 2, 4)
"""As many questions as the gate asks, and more of them."""


def refusals(ways: Sequence[Tried], noises: Sequence[Tried], times: int, draws: int) -> float:
    """Part of the draws that the gate refuses. Both have the same trials, in the same order."""
    chance = random.Random(SEED)
    return sum(_is_refused(ways, noises, times, chance) for _ in range(draws)) / draws


def _is_refused(
    ways: Sequence[Tried], noises: Sequence[Tried], times: int, chance: random.Random
) -> bool:
    drawn = [_drawn(way, noise, times, chance) for way, noise in zip(ways, noises, strict=True)]
    measured, noise = (together(parts) for parts in zip(*drawn, strict=True))
    return bool(objections(measured, noise))


def _drawn(
    way: Tried, noise: Tried, times: int, chance: random.Random
) -> tuple[Measured, Measured]:
    questions = list(_questions(way.measured.needles, times, chance))
    tokens = list(_tokens(len(way.divergences), times, chance))
    return _picked(way, questions, tokens), _picked(noise, questions, tokens)


def _questions(needles: Sequence[NeedleScore], times: int, chance: random.Random) -> Iterator[int]:
    """Places of needles: as many answers and as many tool calls as there are, so many times."""
    for as_json in (False, True):
        places = [place for place, needle in enumerate(needles) if needle.as_json is as_json]
        yield from chance.choices(places, k=times * len(places))


def _tokens(count: int, times: int, chance: random.Random) -> Iterator[int]:
    starts = range(count - PIECE_TOKENS + 1)
    for start in chance.choices(starts, k=times * count // PIECE_TOKENS):
        yield from range(start, start + PIECE_TOKENS)


def _picked(tried: Tried, questions: Sequence[int], tokens: Sequence[int]) -> Measured:
    (prose,) = tried.measured.prose
    falls = tuple(tried.falls[token] for token in tokens)
    likeness = Likeness(
        # Only how much less likely a token got is kept of it.
        reference_logprobs=falls,
        logprobs=(0.0,) * len(falls),
        reference_hits=(),
        hits=(),
        agreements=tuple(tried.agreements[token] for token in tokens),
        divergences=tuple(tried.divergences[token] for token in tokens),
    )
    needles = tuple(tried.measured.needles[question] for question in questions)
    return Measured(needles, (prose_score(prose.length, likeness),))


def table(found: Sequence[Tried], draws: int) -> Iterator[str]:
    """Lines of Markdown: a way a line, and the part of draws refused by how many questions."""
    yield f"| model | KV type | {' | '.join(f'{times} x' for times in TIMES)} |"
    yield f"|{'---|' * (2 + len(TIMES))}"
    for model, own in groupby(sorted(found, key=_key), key=lambda tried: tried.model):
        ways = {way: list(group) for way, group in groupby(own, key=lambda tried: tried.way)}
        noises = ways.pop(ROUNDING)
        for way, tried in ways.items():
            parts = (f"{refusals(tried, noises, times, draws):.1%}" for times in TIMES)
            yield f"| {model} | {way} | {' | '.join(parts)} |"


def _key(tried: Tried) -> tuple[str, str, str]:
    return tried.model, tried.way, tried.trial


def main() -> None:
    parser = argparse.ArgumentParser(description="How often the gate would err.")
    parser.add_argument("--draws", type=int, default=1000)
    options = parser.parse_args()
    for line in table(read(), options.draws):
        click.echo(line)


if __name__ == "__main__":
    main()
