"""`edgekv pull`: get a model from a hub, if it fits this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgekv.budget.sizes import format_size
from edgekv.tui.visible import visible

if TYPE_CHECKING:
    from edgekv.models.hub import Hub
    from edgekv.models.pull import Wanted


@click.command()
@click.argument("name")
@click.option("--anyway", is_flag=True, help="Also where it will not fit this machine's memory.")
def command(name: str, anyway: bool) -> None:
    """Get the model NAME and print its path.

    NAME is one of 'edgekv models', with a quantisation behind a colon if not the usual one
    (qwen3-4b:Q8_0), or hf:owner/repo, with a quantisation or a file behind a colon. A pull that
    was interrupted goes on where it stopped. HF_ENDPOINT names a mirror, HF_TOKEN your token.
    """
    click.echo(visible(str(get(name, anyway=anyway))))


def get(name: str, *, anyway: bool = False) -> Path:
    """Pull what `name` means and return the file to open. Raises `EdgeKVError`."""
    from edgekv.cli.progress import ProgressLine
    from edgekv.models.folders import pull_folder
    from edgekv.models.hub import connect
    from edgekv.models.pull import Wanted, check_space, missing_bytes, pull
    from edgekv.models.quantisations import choose
    from edgekv.models.wanted import read_wanted

    reference = read_wanted(name)
    hub = connect()
    listing = hub.list_files(reference.repository)
    wanted = Wanted(listing, choose(listing, reference.wanted), pull_folder())
    missing = missing_bytes(hub, wanted)
    check_space(hub, wanted)
    if missing and not anyway:
        _check_fit(hub, wanted)
    if missing:
        say(f"{wanted.quantisation.name} of {listing.repository}, {format_size(missing)} to come")
    with ProgressLine() as hear:
        return pull(hub, wanted, hear, lambda: say("another pull of this file goes first"))


def _check_fit(hub: Hub, wanted: Wanted) -> None:
    """Raises `DoesNotFit` before anything large is transferred."""
    from edgekv.errors import DoesNotFit
    from edgekv.models.forecast import forecast
    from edgekv.models.remote import candidate_of, fetch_header
    from edgekv.service.devices import read_place

    header = fetch_header(hub, wanted.listing, wanted.quantisation.files[0])

    async def foresee() -> None:
        await forecast(candidate_of(header, wanted.quantisation), await read_place())

    try:
        asyncio.run(foresee())
    except DoesNotFit as error:
        sentence = f"{error} 'edgekv pull --anyway' gets it all the same."
        raise DoesNotFit(sentence, error.needed, error.available) from error


def say(sentence: str) -> None:
    click.echo(f"edgekv: {visible(sentence)}", err=True)
