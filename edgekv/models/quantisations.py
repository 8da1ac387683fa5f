"""Which files of a repository make one model, and which of its quantisations is meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from edgekv.core.splits import read_split_name
from edgekv.errors import ModelError
from edgekv.models.hub import HubFile, Listing

USUAL = ("Q4_K_M", "MXFP4", "Q4_0", "Q4_K_S", "Q5_K_M", "Q8_0")
"""What to take when the user names none, the first that is there: four bits lose little."""

_QUANTISATION = re.compile(
    r"(?:^|[-._/])((?:UD-)?(?:I?Q\d(?:_[A-Z0-9]+)*|TQ\d_\d|MXFP4(?:_MOE)?|NVFP4|BF16|F16|F32))(?=$|[-._/])",
    re.IGNORECASE,
)
_PLAIN_PATH = re.compile(r"[^/\\:\0]+(?:/[^/\\:\0]+)*")


@dataclass(frozen=True, slots=True)
class Quantisation:
    """One model of a repository: a file, or all files of a set, the first one first."""

    label: str
    """ "Q4_K_M"; the whole stem where the name tells none."""
    files: tuple[HubFile, ...]

    @property
    def name(self) -> str:
        return self.files[0].name

    @property
    def num_bytes(self) -> int:
        return sum(file.num_bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A model of a hub that somebody means."""

    listing: Listing
    quantisation: Quantisation


def quantisation_label(name: str) -> str | None:
    """ "Q4_K_M" of "Qwen3-4B-Q4_K_M.gguf"; None if the name tells none."""
    path = PurePosixPath(name)
    split = read_split_name(path.name)
    stem = split.base if split else path.stem
    labels = _QUANTISATION.findall(str(path.with_name(stem)))
    return labels[-1].upper() if labels else None


def quantisations(listing: Listing) -> tuple[Quantisation, ...]:
    """Every model in the listing, smallest first. Raises `ModelError` if there is none."""
    files = {file.name: file for file in listing.files if _is_model(file.name)}
    found = [_whole(listing, file, files) for file in files.values() if _is_first(file.name)]
    if not found:
        raise ModelError(
            f"{listing.repository} holds no .gguf file; look for a repository whose name "
            "ends in -GGUF."
        )
    return tuple(sorted(found, key=lambda one: one.num_bytes))


def choose(listing: Listing, wanted: str | None) -> Quantisation:
    """The model that the user means. Raises `ModelError` with what there is."""
    there = quantisations(listing)
    if wanted is None:
        return _usual(listing, there)
    named = [one for one in there if any(file.name == wanted for file in one.files)]
    labelled = [one for one in there if one.label.upper() == wanted.upper()]
    fitting = named or labelled
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(one.name for one in fitting)
        raise ModelError(f"{wanted} of {listing.repository} may be any of {names}; name the file.")
    raise ModelError(f"{listing.repository} has no {wanted}; it has {_labels(there)}.")


def _usual(listing: Listing, there: tuple[Quantisation, ...]) -> Quantisation:
    if len(there) == 1:
        return there[0]
    for label in USUAL:
        labelled = [one for one in there if one.label == label]
        if len(labelled) == 1:
            return labelled[0]
    raise ModelError(
        f"{listing.repository} has {_labels(there)}; say which: "
        f"hf:{listing.repository}:{there[0].label}."
    )


def _labels(there: Iterable[Quantisation]) -> str:
    return ", ".join(dict.fromkeys(one.label for one in there))


def _is_model(name: str) -> bool:
    """A language model's weights: no picture reader, no statistics, and a harmless path."""
    path = PurePosixPath(name)
    is_plain = _PLAIN_PATH.fullmatch(name) is not None and ".." not in path.parts
    return path.suffix.lower() == ".gguf" and is_plain and not is_companion(path.name)


def is_companion(file_name: str) -> bool:
    """Whether a file goes with a language model and holds none: a picture reader, or statistics."""
    return file_name.lower().startswith("mmproj") or "imatrix" in file_name.lower()


def _is_first(name: str) -> bool:
    split = read_split_name(PurePosixPath(name).name)
    return split is None or split.number == 1


def _whole(listing: Listing, first: HubFile, files: dict[str, HubFile]) -> Quantisation:
    path = PurePosixPath(first.name)
    split = read_split_name(path.name)
    names = [str(path.with_name(name)) for name in split.names()] if split else [first.name]
    missing = [name for name in names if name not in files]
    if missing:
        raise ModelError(
            f"{listing.repository} lacks {missing[0]}, a part of {path.name}; "
            "pull another quantisation, or from another repository."
        )
    label = quantisation_label(first.name) or (split.base if split else path.stem)
    return Quantisation(label, tuple(files[name] for name in names))
