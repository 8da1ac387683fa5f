"""The models that EdgeKV knows by name: models/catalog.toml as values."""

from __future__ import annotations

import difflib
import tomllib
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from edgekv.errors import ModelError

Use: TypeAlias = Literal["chat", "code", "reasoning"]

STARTER = "smollm2-135m"
ALIASES = {"starter": STARTER}


class CatalogueFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One quantisation of a model. What nobody stated is None."""

    quantisation: str
    name: str
    """Its path in the repository."""
    bytes: int | None = None
    about_bytes: int | None = None
    """A rounded size, where the exact one is not known."""
    sha256: str | None = None

    @property
    def size(self) -> int | None:
        """Bytes, as well as they are known."""
        return self.bytes or self.about_bytes


class Experts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mixture of experts computes each token with a part of its weights."""

    billions: float
    billions_active: float

    @property
    def active_share(self) -> float:
        return self.billions_active / self.billions


class CatalogueModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model of the catalogue. What nobody stated is None."""

    title: str
    use: Use
    about: str
    """One line of what it is good at."""
    repository: str
    files: tuple[CatalogueFile, ...]
    """The first is the one to take unless the user says otherwise."""
    licence: str | None = None
    experts: Experts | None = None
    context_train: int | None = None
    architecture: str | None = None
    vocabulary: int | None = None
    geometry: dict[str, int | list[int]] | None = None
    """What a GGUF header says, by its keys without the architecture's name in front."""

    def metadata(self) -> dict[str, str] | None:
        """The header's metadata as far as it is known; None if the geometry is not."""
        if self.geometry is None or self.architecture is None:
            return None
        keys = {f"{self.architecture}.{key}": str(value) for key, value in self.geometry.items()}
        if self.context_train is not None:
            keys[f"{self.architecture}.context_length"] = str(self.context_train)
        return {"general.architecture": self.architecture, "general.name": self.title, **keys}


@cache
def catalogue() -> dict[str, CatalogueModel]:
    """Every model by its name, in the file's order."""
    entries = tomllib.loads(_file().read_text(encoding="utf-8"))["models"]
    return msgspec.convert(entries, dict[str, CatalogueModel])


def catalogue_name(name: str) -> str | None:
    """The catalogue's spelling of a name, aliases resolved; None if it is not in there."""
    lowered = name.lower()
    resolved = ALIASES.get(lowered, lowered)
    return resolved if resolved in catalogue() else None


def unknown_name(name: str) -> ModelError:
    """The refusal of a name that means nothing here."""
    close = difflib.get_close_matches(name.lower(), [*catalogue(), *ALIASES], n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return ModelError(
        f"'{name}' is no model here and none of the catalogue; {hint}"
        "give a path, hf:owner/repo, or a name that 'edgekv models' lists."
    )


def _file() -> Path:
    """Beside this module where EdgeKV is installed, in models/ of the repository otherwise."""
    installed = Path(__file__).with_name("catalog.toml")
    return installed if installed.is_file() else _in_repository()


def _in_repository() -> Path:
    return Path(__file__).resolve().parents[2] / "models" / "catalog.toml"
