"""What `edgekv chat` offers to somebody who has not got the model yet."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgekv.budget.sizes import format_size
from edgekv.cli.plain_chat import take_any_text
from edgekv.cli.pull import get, say
from edgekv.errors import NotHere

if TYPE_CHECKING:
    from edgekv.models.verdicts import Verdict


def offered(missing: NotHere, *, is_named: bool) -> Path | None:
    """The model that was got after a question; None where nobody can be asked, or says no."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    if not all(stream is not None and stream.isatty() for stream in streams):
        return None
    take_any_text(sys.stdin)
    return _one(missing.wanted) if is_named else _first_model(missing.wanted)


def _one(name: str) -> Path | None:
    if click.confirm(f"{name} is not here yet. Get it now?", default=True, err=True):
        return get(name)
    return None


def _first_model(starter: str) -> Path | None:
    """For a machine without any model: the best that fits, or the smallest for a first try."""
    say("no model is here yet; looking at what fits this machine …")
    verdicts = {verdict.name: verdict for verdict in asyncio.run(_judged())}
    from edgekv.models.verdicts import best_of

    best = best_of(verdicts.values())
    choices = {"s": verdicts[starter]} if best is None else {"b": best, "s": verdicts[starter]}
    for letter, verdict in choices.items():
        click.echo(f"  {letter}  {_words(verdict)}", err=True)
    click.echo("  n  nothing; 'edgekv models' lists all of them", err=True)
    letters = click.Choice([*choices, "n"])
    letter = click.prompt("Get which?", type=letters, default=next(iter(choices)), err=True)
    return None if letter == "n" else get(choices[letter].name)


def _words(verdict: Verdict) -> str:
    size = format_size(verdict.num_bytes) if verdict.num_bytes else "size not known"
    about = verdict.model.about if verdict.model else ""
    return f"{verdict.name}, {size}: {about}"


async def _judged() -> tuple[Verdict, ...]:
    from edgekv.service.model_supply import ModelSupply

    return await ModelSupply().judged()
