"""How people name a model on a hub: `hf:owner/repo`, or `hf:owner/repo:Q4_K_M`, or a file."""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgekv.errors import ModelError

PREFIX = "hf:"
# Hugging Face's own rule for names, which also keeps them harmless as folder names.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}")


@dataclass(frozen=True, slots=True)
class HubReference:
    repository: str
    """ "owner/name"."""
    wanted: str | None = None
    """A file of the repository or a quantisation; None leaves the choice to us."""

    def __str__(self) -> str:
        return f"{PREFIX}{self.repository}" + (f":{self.wanted}" if self.wanted else "")


def is_hub_reference(name: str) -> bool:
    return name.startswith(PREFIX)


def read_hub_reference(name: str) -> HubReference:
    """Raises `ModelError` for anything but `hf:owner/repo` with an optional `:FILE-OR-QUANT`."""
    repository, colon, wanted = name.removeprefix(PREFIX).partition(":")
    parts = repository.split("/")
    is_named = len(parts) == 2 and all(_NAME.fullmatch(part) for part in parts)
    if not is_named or ".." in repository or (colon and not wanted):
        raise ModelError(
            f"'{name}' names no model of a hub; write hf:owner/repo or hf:owner/repo:Q4_K_M."
        )
    return HubReference(repository, wanted or None)
