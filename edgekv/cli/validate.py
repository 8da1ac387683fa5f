"""`edgekv validate`: may this model keep its keys and values in fewer bits?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click
import msgspec

from edgekv.budget.kv_types import Pair
from edgekv.budget.wish import Wish
from edgekv.cli.options import budget_options, kv_types
from edgekv.cli.progress import stage_line
from edgekv.cli.settable import said_in_settings
from edgekv.config.places import data_folder, made
from edgekv.errors import InvalidValue, Unavailable
from edgekv.quality.html import page
from edgekv.quality.report import report
from edgekv.quality.trials import LEAST_LENGTH
from edgekv.quality.verdicts import REFERENCE
from edgekv.service.ground import verdicts as known_verdicts
from edgekv.service.lineup import BRANCH_TOKENS
from edgekv.service.validation import LONGEST, Scope, Validation
from edgekv.tui.visible import visible

USUAL = "q8_0"
"""What is validated unless --kv-type says otherwise."""


def pairs(
    ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[str | None, str | None], ...]:
    """Read as many types, or pairs of types, as are given."""
    return tuple(kv_types(ctx, param, text) for text in texts)


@click.command()
@budget_options
@click.option(
    "--also",
    multiple=True,
    callback=pairs,
    metavar="TYPE|KTYPE/VTYPE",
    help="Another KV type to test in the same run, for less than in a run of its own; "
    "may be repeated.",
)
@click.option("--quick", is_flag=True, help="A conversation of 2,048 tokens; enough to trust q8_0.")
@click.option(
    "--longest",
    type=click.IntRange(min=LEAST_LENGTH + BRANCH_TOKENS),
    default=LONGEST,
    show_default=True,
    metavar="N",
    help="Tokens of the longest conversation, as far as the model and memory go.",
)
@click.option(
    "--every-length",
    is_flag=True,
    help="Read longer texts also for a type that a shorter one has refused.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a type with every score.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a report.")
def command(
    path: str,
    wish: Wish,
    also: tuple[tuple[str | None, str | None], ...],
    as_json: bool,
    html: Path | None,
    **extent: Any,
) -> None:
    """Test on MODEL whether a KV type finds and predicts what f16 does, and keep the verdict.

    --kv-type says which type; without it q8_0 is tested. Every type is held against what rounding
    alone does, which is measured along. Exit code 1 says that a type may not be trusted. A run
    that was interrupted goes on where it was.
    """
    if wish.workers and not said_in_settings("workers"):
        raise click.UsageError("A KV type is judged on this machine alone; leave out --workers.")
    if wish.adapters:
        raise click.UsageError("A KV type is judged on the model alone; leave out --lora.")
    asked = map(_pair, [(wish.kv_type_k, wish.kv_type_v), *also])
    scope = Scope(tuple(dict.fromkeys(asked)), **extent)
    if REFERENCE in scope.pairs:
        raise InvalidValue("kv_type", "f16 is what others are compared with; name another type.")
    made(data_folder(), "verdicts")
    verdicts = known_verdicts()
    assert verdicts is not None, "there is a folder"
    given = asyncio.run(Validation(path, wish, scope, verdicts).run(stage_line()))
    if html is not None:
        _write(html, page(given))
    for number, verdict in enumerate(given):
        if as_json:
            click.echo(msgspec.json.encode(verdict))
        else:
            click.echo("\n" * bool(number) + "\n".join(map(visible, report(verdict))))
    if not all(verdict.passed for verdict in given):
        raise SystemExit(1)


def _pair(types: tuple[str | None, str | None]) -> Pair:
    return types[0] or USUAL, types[1] or USUAL


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Unavailable(f"The report cannot be written to {path}: {error.strerror}.") from None
