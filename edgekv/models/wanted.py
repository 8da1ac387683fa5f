"""From what a user wants to get to a repository at a hub, and what of it."""

from __future__ import annotations

from edgekv.models.catalogue import CatalogueFile, catalogue, catalogue_name, unknown_name
from edgekv.models.hub import Hub
from edgekv.models.quantisations import Chosen, choose
from edgekv.models.reference import HubReference, is_hub_reference, read_hub_reference


def read_wanted(name: str) -> HubReference:
    """`hf:…` as it is; `NAME` or `NAME:QUANT` of the catalogue as the file it stands for.

    Raises `ModelError` for a name that nobody knows.
    """
    if is_hub_reference(name):
        return read_hub_reference(name)
    plain, _, label = name.partition(":")
    catalogued = catalogue_name(plain)
    if catalogued is None:
        raise unknown_name(name)
    model = catalogue()[catalogued]
    if not label:
        return HubReference(model.repository, model.files[0].name)
    return HubReference(model.repository, _named(model.files, label) or label)


def choose_at_hub(hub: Hub, name: str) -> Chosen:
    """Ask the hub for what `name` means. Raises `HubError` and `ModelError`."""
    reference = read_wanted(name)
    listing = hub.list_files(reference.repository)
    return Chosen(listing, choose(listing, reference.wanted))


def _named(files: tuple[CatalogueFile, ...], label: str) -> str | None:
    """The catalogue's file of a quantisation. Others the hub may still have."""
    return next((file.name for file in files if file.quantisation == label.upper()), None)
