"""The gate's limits tried on questions that nobody saw when they were set.

    python -m bench.held_out models/SmolLM2-135M-Instruct.Q4_1.gguf

asks other facts (telephone numbers of people instead of pass codes of things), at depths drawn
anew, in another text (`held_out.txt`: chapters IV to VI of Alice's Adventures in Wonderland, by
Lewis Carroll, 1865, in the public domain). Every trial begins elsewhere in it, so that none
predicts the words of another. Each that is measured is added to `bench/results/held-out.jsonl` at
once, and none is measured twice; then tables are printed, and what the gate says of each way. As in
the gate, a way that a short text has refused for good reads no longer ones.

Beside KV types there is f16 without flash attention: f16 itself, added up in another order than the
noise that it is judged by. The gate should never refuse it.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path

import click
import msgspec
from msgspec import structs

from bench.kv_quality import tables
from edgekv.budget.kv_types import Pair, pair_name
from edgekv.budget.wish import Wish
from edgekv.core.comparison import Likeness
from edgekv.errors import Unavailable
from edgekv.quality.gate import is_settled, objections
from edgekv.quality.material import Form, Material, sentences_of
from edgekv.quality.measures import Measured, together
from edgekv.quality.passages import ask
from edgekv.quality.trials import Trial, trials
from edgekv.quality.verdicts import REFERENCE, Verdict
from edgekv.service.comparing import comparing
from edgekv.service.ground import subject_of
from edgekv.service.lineup import BRANCH_TOKENS, Lineup, Prepared, prepare

KEPT = Path(__file__).parent / "results" / "held-out.jsonl"
TEXT = Path(__file__).with_name("held_out.txt")
LONGEST = 1024 + BRANCH_TOKENS
ROUNDING, PLAIN = "rounding alone", "f16, no flash attention"
PAIRS: tuple[Pair, ...] = (
    ("q8_0", "q8_0"), ("q8_0", "f16"), ("f16", "q8_0"),
    ("q8_0", "q4_0"), ("q4_0", "q8_0"), ("q4_0", "q4_0"), ("q8_0", "q2_0"), ("q2_0", "q2_0"),
)  # fmt: skip
TELEPHONES = Form("telephone number", "call", "person", "number")
MANNERS = (
    "tall", "young", "blind", "cheerful", "retired", "bearded", "shy", "wealthy",
    "clumsy", "proud", "pale", "famous", "sleepy", "honest", "stubborn", "limping",
)  # fmt: skip
PEOPLE = (
    "baker", "pilot", "widow", "judge", "gardener", "tailor", "nurse", "sailor",
    "violinist", "butcher", "teacher", "miller", "painter", "surgeon", "shepherd", "clerk",
)  # fmt: skip


class Tried(msgspec.Struct, frozen=True):
    """What one way to keep keys and values did in one trial, token by token where it is prose."""

    model: str
    computed_by: str
    way: str
    trial: str
    measured: Measured
    divergences: tuple[float, ...]
    """Nats, one a token of prose; so are the next two."""
    falls: tuple[float, ...]
    """Nats by which the token that is there got less likely."""
    agreements: tuple[bool, ...]


@cache
def material(seed: int) -> Material:
    sentences = sentences_of(TEXT.read_text(encoding="utf-8"))
    first = random.Random(seed).randrange(len(sentences))
    turned = sentences[first:] + sentences[:first]
    return Material("held-out", turned, MANNERS, PEOPLE, TELEPHONES, spread=0.9)


def held_out_trials(longest: int, seed: int) -> tuple[Trial, ...]:
    """As the full gate's. No two seeds share a question."""
    gate = trials(longest - BRANCH_TOKENS, quick=False)
    seeds = (100 * seed + trial.seed for trial in gate)
    return tuple(
        replace(trial, seed=own, material=material(own))
        for trial, own in zip(gate, seeds, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Asking:
    """A model opened in every way, and where what it says is kept."""

    model: str
    computed_by: str
    lineup: Lineup

    @classmethod
    def of(cls, prepared: Prepared) -> Asking:
        if len(prepared.lineups) > 1:
            raise Unavailable("Not all ways fit at once; give a machine with more memory.")
        described = prepared.ground.described
        (lineup,) = prepared.lineups
        return cls(described.facts.name, subject_of(described).computed_by, _with_plain(lineup))

    def tried(self, pair: Pair, trial: Trial, scores: Measured, prose: Likeness) -> Tried:
        pairs = zip(prose.reference_logprobs, prose.logprobs, strict=True)
        return Tried(
            self.model,
            self.computed_by,
            way_of(pair),
            trial.name,
            scores,
            tuple(round(divergence, 6) for divergence in prose.divergences),
            tuple(round(before - after, 5) for before, after in pairs),
            prose.agreements,
        )


_PLAIN_PAIR: Pair = ("f16", "plain")


def way_of(pair: Pair) -> str:
    return {REFERENCE: ROUNDING, _PLAIN_PAIR: PLAIN}.get(pair) or pair_name(pair)


def _with_plain(lineup: Lineup) -> Lineup:
    opening = lineup.reference
    plain = structs.replace(opening, choice=structs.replace(opening.choice, flash_attention=False))
    return replace(lineup, candidates=lineup.candidates | {_PLAIN_PAIR: plain})


async def measure(path: str, wish: Wish, todo: Sequence[Trial], longest: int) -> None:
    """Add what is missing to the kept trials."""
    prepared = await prepare(path, wish, (REFERENCE, *PAIRS), longest)
    asking = Asking.of(prepared)
    async with comparing(asking.lineup, prepared.ground.workers) as opened:
        for trial in todo:
            known = found(asking.model, todo)
            if trial.name in {tried.trial for tried in known}:
                continue
            done = settled(known)
            pairs = [pair for pair in opened.pairs if way_of(pair) not in done]
            asked = await ask(trial, opened.tokenise)
            ways = await opened.compare(asked.passage, pairs, lambda _: None)
            for pair, likenesses in zip(pairs, ways, strict=True):
                scores = asked.measured(likenesses)
                _keep(asking.tried(pair, trial, scores, likenesses[-1]))


def found(model: str, todo: Sequence[Trial]) -> list[Tried]:
    """What is kept of a model in these trials."""
    names = {trial.name for trial in todo}
    return [tried for tried in read() if tried.model == model and tried.trial in names]


def read() -> list[Tried]:
    if not KEPT.exists():
        return []
    return msgspec.json.Decoder(Tried).decode_lines(KEPT.read_bytes())


def _keep(tried: Tried) -> None:
    with KEPT.open("ab") as file:
        file.write(msgspec.json.encode(tried) + b"\n")


def measured(tried: Sequence[Tried]) -> dict[str, Measured]:
    """By way; of one model and one set of trials."""
    ways = groupby(sorted(tried, key=lambda one: one.way), key=lambda one: one.way)
    return {way: together(one.measured for one in group) for way, group in ways}


def settled(tried: Sequence[Tried]) -> set[str]:
    """The ways that are refused whatever longer texts show."""
    ways = measured(tried)
    return {way for way, own in ways.items() if is_settled(own, ways[ROUNDING])} - {ROUNDING}


def judged(todo: Sequence[Trial]) -> list[Verdict]:
    """What the gate says of each way on each model that was asked these trials."""
    lengths = {trial.name: trial.length for trial in todo}
    kept = sorted((one for one in read() if one.trial in lengths), key=lambda one: one.model)
    verdicts = list[Verdict]()
    for model, group in groupby(kept, key=lambda one: one.model):
        own = list(group)
        computed_by, ways = own[0].computed_by, measured(own)
        noise = ways.pop(ROUNDING)
        for way, scores in ways.items():
            read_to = max(lengths[one.trial] for one in own if one.way == way) + BRANCH_TOKENS
            reasons = objections(scores, noise)
            key_type, _, value_type = way.partition("/")
            types = key_type, value_type or key_type
            verdicts.append(
                Verdict(*types, False, reasons, read_to, scores, model, computed_by, noise)
            )
    return verdicts


def main() -> None:
    parser = argparse.ArgumentParser(description="The gate on questions that set no limit.")
    parser.add_argument("model", nargs="?", help="without it what is kept is judged again")
    parser.add_argument("--longest", type=int, default=LONGEST)
    parser.add_argument("--seed", type=int, default=1, help="which held-out questions")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    todo = held_out_trials(options.longest, options.seed)
    wish = Wish(threads=options.threads)
    if options.model is not None:
        asyncio.run(measure(options.model, wish, todo, options.longest))
    verdicts = judged(todo)
    click.echo("\n".join(tables(verdicts)))
    for verdict in verdicts:
        reasons = "; ".join(verdict.objections) or "passed"
        click.echo(f"{verdict.model}, {pair_name(verdict.pair)}: {reasons}")


if __name__ == "__main__":
    main()
