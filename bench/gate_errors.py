"""How often the gate would say otherwise, had it asked other questions of the same kind.

    python -m bench.gate_errors

draws the questions and pieces of prose of `bench/results/held-out.jsonl` anew, with a fixed seed,
as many as were asked or several times as many, and judges each draw. The part that is refused is
the error of a type that should pass; the rest is that of one that should not. A question is drawn
with what rounding did to it. Prose is drawn in pieces, because a token is not independent of the
last. What all questions have in common, the model above all, is not drawn.

Of `kv-quality.jsonl` no single tokens of prose are kept, so that only its questions are drawn, and
only the limits on answers and tool calls judge them. There f16 is held against itself as well, with
what rounding did to some questions as the candidate and what it did to others as the noise.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from itertools import groupby

import click

from bench import kv_quality
from bench.held_out import ROUNDING, Tried, read
from edgekv.budget.kv_types import pair_name
from edgekv.core.comparison import Likeness
from edgekv.quality.gate import objections
from edgekv.quality.measures import Measured, NeedleScore, prose_score, together
from edgekv.quality.verdicts import Verdict

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


def retrieval_refusals(
    own: Measured, noise: Measured, times: int, draws: int, *, apart: bool = False
) -> float:
    """Part of the draws that the limits on answers and tool calls refuse. Questions of the noise
    are drawn anew if `apart`. Both have the same trials, in the same order.
    """
    chance = random.Random(SEED)
    refused = 0
    for _ in range(draws):
        questions = list(_of_each_length(own.needles, times, chance))
        others = list(_of_each_length(own.needles, times, chance)) if apart else questions
        # With the noise's own prose no limit on prose is crossed.
        measured = Measured(tuple(own.needles[place] for place in questions), noise.prose)
        drawn = Measured(tuple(noise.needles[place] for place in others), noise.prose)
        refused += bool(objections(measured, drawn))
    return refused / draws


def _of_each_length(
    needles: Sequence[NeedleScore], times: int, chance: random.Random
) -> Iterator[int]:
    first = 0
    for _, group in groupby(needles, key=lambda needle: needle.length):
        own = list(group)
        yield from (first + place for place in _questions(own, times, chance))
        first += len(own)


def table(found: Sequence[Tried], draws: int) -> Iterator[str]:
    """Lines of Markdown: a way a line, and the part of draws refused by how many questions."""
    yield from _head()
    for model, own in groupby(sorted(found, key=_key), key=lambda tried: tried.model):
        ways = {way: list(group) for way, group in groupby(own, key=lambda tried: tried.way)}
        noises = {noise.trial: noise for noise in ways.pop(ROUNDING)}
        for way, tried in ways.items():
            rounding = [noises[one.trial] for one in tried]
            parts = [refusals(tried, rounding, times, draws) for times in TIMES]
            yield _line(model, way, parts)


def retrieval_table(verdicts: Sequence[Verdict], draws: int) -> Iterator[str]:
    """The same of kept verdicts, sorted by model, as far as their questions go."""
    yield from _head()
    for model, group in groupby(verdicts, key=lambda verdict: verdict.model):
        own = list(group)
        noise = max((verdict.noise for verdict in own), key=lambda noise: len(noise.prose))
        parts = [retrieval_refusals(noise, noise, t, draws, apart=True) for t in TIMES]
        yield _line(model, "f16 itself", parts)
        for verdict in own:
            measured = verdict.measured
            noise = _at_lengths_of(measured, verdict.noise)
            parts = [retrieval_refusals(measured, noise, t, draws) for t in TIMES]
            yield _line(model, pair_name(verdict.pair), parts)


def _at_lengths_of(measured: Measured, noise: Measured) -> Measured:
    lengths = {score.length for score in measured.prose}
    return Measured(
        tuple(score for score in noise.needles if score.length in lengths),
        tuple(score for score in noise.prose if score.length in lengths),
    )


def _head() -> Iterator[str]:
    yield f"| model | KV type | {' | '.join(f'{times} x' for times in TIMES)} |"
    yield f"|{'---|' * (2 + len(TIMES))}"


def _line(model: str, name: str, parts: Sequence[float]) -> str:
    return f"| {model} | {name} | {' | '.join(f'{part:.1%}' for part in parts)} |"


def _key(tried: Tried) -> tuple[str, str, str]:
    return tried.model, tried.way, tried.trial


def main() -> None:
    parser = argparse.ArgumentParser(description="How often the gate would err.")
    parser.add_argument("--draws", type=int, default=1000)
    options = parser.parse_args()
    kept = kv_quality.read(kv_quality.KEPT)
    for line in (*table(read(), options.draws), "", *retrieval_table(kept, options.draws)):
        click.echo(line)


if __name__ == "__main__":
    main()
