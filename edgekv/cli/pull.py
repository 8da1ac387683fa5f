"""`edgekv pull`: get a model from a hub, if it fits this machine."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgekv.budget.sizes import format_size
from edgekv.budget.wish import Wish
from edgekv.errors import DoesNotFit
from edgekv.tui.visible import visible

if TYPE_CHECKING:
    from edgekv.models.hub import Hub
    from edgekv.models.quantisations import Chosen


@click.command()
@click.argument("name")
@click.option("--anyway", is_flag=True, help="Also where it will not fit this machine's memory.")
def command(name: str, anyway: bool) -> None:
    """Get the model NAME and print its path.

    NAME is one of 'edgekv models', with a quantisation behind a colon if not the usual one
    (qwen3-4b:Q8_0), or hf:owner/repo, with a quantisation or a file behind a colon. A pull that
    was interrupted goes on where it stopped. HF_ENDPOINT names a mirror, HF_TOKEN your token.
    """
    print_path(get(name, anyway=anyway))


def print_path(path: Path) -> None:
    """For programs the very bytes that the system knows the file by, for people what they see."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    click.echo(visible(str(path)) if is_terminal else os.fsencode(path))


def get(name: str, *, anyway: bool = False) -> Path:
    """Pull what `name` means and return the file to open. Raises `EdgeKVError`."""
    from edgekv.cli.progress import ProgressLine
    from edgekv.models.folders import pull_folder
    from edgekv.models.hub import connect
    from edgekv.models.pull import Wanted, check_space, missing_bytes, pull
    from edgekv.models.wanted import choose_at_hub, read_wanted

    read_wanted(name)  # before anybody is asked
    hub = connect()
    chosen = choose_at_hub(hub, name)
    wanted = Wanted(chosen.listing, chosen.quantisation, pull_folder())
    missing = missing_bytes(hub, wanted)
    check_space(hub, wanted)
    if missing and not anyway:
        _check_fit(hub, chosen)
    if missing:
        name, repository = chosen.quantisation.name, chosen.listing.repository
        say(f"{name} of {repository}, {format_size(missing)} to come")
    with ProgressLine() as hear:
        path = pull(hub, wanted, hear, lambda: say("another pull of this file goes first"))
    if any(file.sha256 is None for file in chosen.quantisation.files):
        say(f"{hub.host} states no hash of it, so only its size was checked")
    return path


def _check_fit(hub: Hub, chosen: Chosen) -> None:
    """Raises `DoesNotFit` before anything large is transferred."""
    from edgekv.models.remote import plan_at_hub
    from edgekv.service.devices import read_place

    async def foresee() -> None:
        await plan_at_hub(hub, chosen, await read_place(), Wish())

    try:
        asyncio.run(foresee())
    except DoesNotFit as error:
        sentence = f"{error} 'edgekv pull --anyway' gets it all the same."
        raise DoesNotFit(sentence, error.needed, error.available) from error


def say(sentence: str) -> None:
    click.echo(f"edgekv: {visible(sentence)}", err=True)
