"""Getting a model from a hub: its space and its fit are checked before anything large comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from edgekv.budget.sizes import format_size
from edgekv.budget.wish import Wish
from edgekv.errors import DoesNotFit
from edgekv.models.folders import pull_folder
from edgekv.models.hub import Hub, connect
from edgekv.models.pull import Wanted, check_space, missing_bytes, pull
from edgekv.models.quantisations import Chosen
from edgekv.models.remote import plan_at_hub
from edgekv.models.transfer import Hear
from edgekv.models.wanted import choose_at_hub, read_wanted
from edgekv.service.devices import read_place


def get_model(name: str, hear: Hear, say: Callable[[str], None], *, anyway: bool = False) -> Path:
    """Pull what `name` means and return the file to open. What is here already is only checked.

    Raises `EdgeKVError`: `DoesNotFit` for a model too large for this machine's memory, unless it
    is wanted `anyway`. `say` hears sentences for the user.
    """
    read_wanted(name)  # before anybody is asked
    hub = connect()
    chosen = choose_at_hub(hub, name)
    wanted = Wanted(chosen.listing, chosen.quantisation, pull_folder())
    missing = missing_bytes(hub, wanted)
    check_space(hub, wanted)
    if missing and not anyway:
        _check_fit(hub, chosen)
    if missing:
        repository = chosen.listing.repository
        say(f"{chosen.quantisation.name} of {repository}, {format_size(missing)} to come")
    if any(file.sha256 is None for file in chosen.quantisation.files):
        say(f"{hub.host} states no hash of it, so only its size can be checked")
    return pull(hub, wanted, hear, lambda: say("another pull of this file goes first"))


def _check_fit(hub: Hub, chosen: Chosen) -> None:
    """Raises `DoesNotFit` before anything large is transferred."""

    async def foresee() -> None:
        await plan_at_hub(hub, chosen, await read_place(), Wish())

    try:
        asyncio.run(foresee())
    except DoesNotFit as error:
        sentence = f"{error} 'edgekv pull --anyway' gets it all the same."
        raise DoesNotFit(sentence, error.needed, error.available) from error
