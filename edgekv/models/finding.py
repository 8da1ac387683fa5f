"""From what a user calls a model to the file to open. No network is asked.

A name means, in this order: a file or a folder; a model of a hub that is here already (`hf:…`);
a name of the catalogue; the name of a file in a known folder, Ollama's names included.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from edgekv.core.splits import read_split_name
from edgekv.errors import ModelError, NotHere
from edgekv.models.catalogue import STARTER, CatalogueModel, catalogue, catalogue_name, unknown_name
from edgekv.models.reference import HubReference, is_hub_reference, read_hub_reference
from edgekv.models.shelf import LocalModel, files_of, local_models, models_in

_MOST_NAMED = 8
"""Models that a refusal lists."""


def find_model(name: str | None) -> Path:
    """The file to open; None means the starter model.

    Raises `NotHere` for a model that can be had, `ModelError` for anything else that is not here.
    """
    if name is None:
        return _starter()
    path = Path(os.path.expanduser(name))
    if path.is_dir():
        return _in_folder(path)
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise ModelError(f"'{name}' is neither a file nor a folder; name the .gguf file itself.")
    if path.exists() or path.is_symlink():
        return first_of_set(path)
    if is_hub_reference(name):
        return _of_hub(read_hub_reference(name))
    if catalogued := catalogue_name(name):
        return _in_catalogue(catalogued)
    return _by_name(name, path)


def first_of_set(path: Path) -> Path:
    """The file to open for `path`: itself, or the first file of the set it is a part of.

    The path stays as it was given: behind a link, the others of the set may have other names.
    Raises `ModelError` for the name of the file that a set lacks.
    """
    split = read_split_name(path.name)
    files = files_of(path)
    missing = [file for file in files if not file.exists()]
    if split is not None and missing:
        raise ModelError(
            f"{path.name} is one of {split.count} files of a model and {missing[0].name} is not "
            f"beside it in {path.parent}; get that file too, under this name."
        )
    return files[0]


def local_copy(model: CatalogueModel) -> LocalModel | None:
    """The first model on this disk that is a file of this entry of the catalogue."""
    names = [Path(file.name).name for file in model.files]
    found = (local for local in local_models() if local.path.name in names)
    return min(found, key=lambda local: names.index(local.path.name), default=None)


def _starter() -> Path:
    copy = local_copy(catalogue()[STARTER])
    if copy is None:
        raise NotHere(
            "No model is named and the starter model is not here; get it with 'edgekv pull "
            "starter', or see what fits this machine with 'edgekv models'.",
            STARTER,
        )
    return copy.path


def _in_catalogue(name: str) -> Path:
    copy = local_copy(catalogue()[name])
    if copy is None:
        raise NotHere(f"{name} is not here yet; get it with 'edgekv pull {name}'.", name)
    return copy.path


def _of_hub(reference: HubReference) -> Path:
    there = [local for local in local_models() if local.repository == reference.repository]
    wanted = (reference.wanted or "").lower()
    fitting = [
        local
        for local in there
        if wanted in {"", local.path.name.lower(), (local.quantisation or "").lower()}
    ]
    if len(fitting) == 1:
        return fitting[0].path
    if fitting:
        names = ", ".join(local.path.name for local in fitting)
        raise ModelError(f"{reference} may be any of {names}; name the file behind a colon.")
    sentence = f"{reference} is not here yet; get it with 'edgekv pull {reference}'."
    raise NotHere(sentence, str(reference))


def _in_folder(folder: Path) -> Path:
    """The one model in a folder, whatever else is in there."""
    here = tuple(models_in(folder))
    if len(here) == 1:
        return here[0].path
    parts = sorted(path for path in folder.iterdir() if read_split_name(path.name))
    if not here and parts:
        return first_of_set(parts[0])
    raise ModelError(
        f"'{folder}' is a folder with {_listed(here)} in it; name the .gguf file that you mean."
    )


def _by_name(name: str, path: Path) -> Path:
    there = local_models()
    spellings = {name.lower(), name.lower().removesuffix(".gguf")}
    named = [local for local in there if local.name.lower() in spellings]
    if len(named) == 1 or (named and len({local.path.name for local in named}) == 1):
        return named[0].path
    if named:
        places = ", ".join(str(local.path) for local in named)
        raise ModelError(f"'{name}' is the name of {places}; give the path that you mean.")
    if len(path.parts) > 1 or path.suffix.lower() == ".gguf":
        raise ModelError(f"'{name}' does not exist; check the path, or see 'edgekv models'.")
    raise unknown_name(name)


def _listed(models: Iterable[LocalModel]) -> str:
    names = [model.path.name for model in models]
    if not names:
        return "no model"
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
