"""What the KV gate found, kept, and the tables of docs/kv-quality.md made of it.

    edgekv validate MODEL --kv-type q8_0 --also q4_0 --json > found.jsonl
    python -m bench.kv_quality found.jsonl

puts the verdicts into `bench/results/kv-quality.jsonl`, in the place of earlier ones on the same
model and types, and prints the tables.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import click
import msgspec

from edgekv.budget.kv_types import pair_name
from edgekv.quality.measures import Measured, NeedleScore, ProseScore
from edgekv.quality.verdicts import Verdict

KEPT = Path(__file__).parent / "results" / "kv-quality.jsonl"
HEAD = (
    "text",
    "KV type",
    "answers",
    "tool calls",
    "less likely by",
    "divergence",
    "1 in 100",
    "same token",
    "perplexity",
    "verdict",
)
ROUNDING = "*rounding alone*"


def read(path: Path) -> list[Verdict]:
    return msgspec.json.Decoder(Verdict).decode_lines(path.read_bytes())


def merged(kept: Iterable[Verdict], found: Iterable[Verdict]) -> list[Verdict]:
    """Sorted by model; those of one run keep their order."""
    verdicts = {(verdict.model, verdict.pair): verdict for verdict in (*kept, *found)}
    return sorted(verdicts.values(), key=lambda verdict: verdict.model)


def tables(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Lines of Markdown. `verdicts` are sorted by model."""
    for model, own in groupby(verdicts, key=lambda verdict: verdict.model):
        group = list(own)
        yield f"{model}, computed by {group[0].computed_by}:"
        yield ""
        yield f"| {' | '.join(HEAD)} |"
        yield f"|{'---|' * len(HEAD)}"
        yield from _rows(group)
        yield ""


def _rows(verdicts: Sequence[Verdict]) -> Iterator[str]:
    noise = max((verdict.noise for verdict in verdicts), key=lambda noise: len(noise.prose))
    for prose in sorted(noise.prose, key=lambda score: score.length):
        yield _row(ROUNDING, noise, prose, "")
        for verdict in verdicts:
            for score in verdict.measured.prose:
                if score.length == prose.length:
                    yield _row(pair_name(verdict.pair), verdict.measured, score, _word(verdict))


def _word(verdict: Verdict) -> str:
    return f"passed to {verdict.longest:,}" if verdict.passed else "refused"


def _row(name: str, measured: Measured, score: ProseScore, word: str) -> str:
    needles = [needle for needle in measured.needles if needle.length == score.length]
    fall = sum(needle.fall for needle in needles) / len(needles)
    cells = (
        f"{score.length:,}",
        name,
        _found([needle for needle in needles if not needle.as_json]),
        _found([needle for needle in needles if needle.as_json]),
        f"{round(fall, 2) + 0.0:.2f} nats",
        f"{score.mean_divergence:.4f}",
        f"{score.p99_divergence:.3f}",
        f"{score.agreement:.1%}",
        f"x {score.perplexity_ratio:.3f}",
        word,
    )
    return f"| {' | '.join(cells)} |"


def _found(needles: Sequence[NeedleScore]) -> str:
    before, after = sum(n.reference_exact for n in needles), sum(n.exact for n in needles)
    return f"{before} → {after} of {len(needles)}"


def main(paths: Sequence[str]) -> None:
    verdicts = read(KEPT) if KEPT.exists() else []
    for path in paths:
        verdicts = merged(verdicts, read(Path(path)))
    if paths:
        KEPT.write_bytes(msgspec.json.Encoder().encode_lines(verdicts))
    click.echo("\n".join(tables(verdicts)))


if __name__ == "__main__":
    main(sys.argv[1:])
