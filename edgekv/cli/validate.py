"""`edgekv validate`: may this model keep its keys and values in fewer bits?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import click
import msgspec

from edgekv.budget.wish import Wish
from edgekv.cli.options import budget_options
from edgekv.cli.progress import stage_line
from edgekv.config.places import data_folder, made
from edgekv.errors import InvalidValue, Unavailable
from edgekv.quality.html import page
from edgekv.quality.measures import NeedleScore
from edgekv.quality.verdicts import Verdict
from edgekv.service.planning import verdicts as known_verdicts
from edgekv.service.validation import LONGEST, Scope, Validation
from edgekv.tui.visible import visible

USUAL = "q8_0"
"""What is validated unless --kv-type says otherwise."""


@click.command()
@budget_options
@click.option("--quick", is_flag=True, help="One text of 2,048 tokens; enough to trust q8_0.")
@click.option(
    "--longest",
    type=click.IntRange(min=512),
    default=LONGEST,
    show_default=True,
    metavar="N",
    help="Tokens of the longest text, as far as the model and memory go.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object with every score.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a report.")
def command(
    path: str, wish: Wish, quick: bool, longest: int, as_json: bool, html: Path | None
) -> None:
    """Test on MODEL whether a KV type finds and predicts what f16 does, and keep the verdict.

    --kv-type says which type; without it q8_0 is tested. Exit code 1 says that it may not be
    trusted. A run that was interrupted goes on where it was.
    """
    scope = Scope(wish.kv_type_k or USUAL, wish.kv_type_v or USUAL, quick, longest)
    if (scope.kv_type_k, scope.kv_type_v) == ("f16", "f16"):
        raise InvalidValue("kv_type", "f16 is what others are compared with; name another type.")
    made(data_folder(), "verdicts")
    verdicts = known_verdicts()
    assert verdicts is not None, "there is a folder"
    verdict = asyncio.run(Validation(path, wish, scope, verdicts).run(stage_line()))
    if html is not None:
        _write(html, page(verdict))
    if as_json:
        click.echo(msgspec.json.encode(verdict))
    else:
        click.echo("\n".join(visible(line) for line in report(verdict)))
    if not verdict.passed:
        raise SystemExit(1)


def report(verdict: Verdict) -> Iterator[str]:
    """A verdict as lines of text for people."""
    pair = verdict.kv_type_k
    if verdict.kv_type_v != pair:
        pair += f" keys, {verdict.kv_type_v} values"
    yield f"{verdict.model}: {pair} against f16"
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
    if verdict.passed:
        extent = "the quick check" if verdict.quick else "the full gate"
        yield f"PASSED {extent}, up to {verdict.longest:,} tokens."
        return
    yield "REFUSED:"
    yield from (f"  - {objection}" for objection in verdict.objections)


def _retrieval(length: int, scores: list[NeedleScore]) -> str:
    cells = [f"  {length:>6,}  "]
    for as_json in (False, True):
        asked = [score for score in scores if score.as_json is as_json]
        before, after = sum(s.reference_exact for s in asked), sum(s.exact for s in asked)
        cells.append(f" {f'{before} of {len(asked)}':<9} {f'{after} of {len(asked)}':<9}")
    fall = fmean(score.reference_logprob - score.logprob for score in scores)
    return "".join(cells) + f" {fall:.3f} nats"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Unavailable(f"The report cannot be written to {path}: {error.strerror}.") from None
