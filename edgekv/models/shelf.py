"""Which models are on this disk, told by names and sizes alone: no file is opened for a list."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from edgekv.core.splits import read_split_name
from edgekv.models.folders import Origin, other_folders, own_folders
from edgekv.models.quantisations import is_companion, quantisation_label

SUFFIX = ".gguf"
_OLLAMA_MODEL = "application/vnd.ollama.image.model"


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model on this disk: one file, or the files of a set."""

    name: str
    """What people may call it."""
    path: Path
    """What to open: the file, or the first of the set, by the name it has where it is."""
    files: tuple[Path, ...]
    origin: Origin
    repository: str | None = None
    """ "owner/name" at a hub, where its place says so."""

    @property
    def num_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.files)

    @property
    def quantisation(self) -> str | None:
        return quantisation_label(self.path.name)

    @property
    def is_ours(self) -> bool:
        """Whether EdgeKV may delete it."""
        return self.origin is Origin.EDGEKV


def local_models() -> tuple[LocalModel, ...]:
    """Every model in the known folders, ours first; a model that two folders share counts once."""
    found: dict[tuple[int, int], LocalModel] = {}
    for model in _all_models():
        status = model.path.stat()
        found.setdefault((status.st_dev, status.st_ino), model)
    return tuple(found.values())


def _all_models() -> Iterator[LocalModel]:
    for folder in own_folders():
        yield from models_below(folder, Origin.EDGEKV)
    for origin, folder in other_folders():
        if origin is Origin.OLLAMA:
            yield from _ollama_models(folder)
        else:
            yield from models_below(folder, origin)


def models_below(folder: Path, origin: Origin) -> Iterator[LocalModel]:
    """The models in a folder and below it. What cannot be read is as if it were not there."""
    for place, _, _ in os.walk(folder):
        for model in models_in(Path(place), origin):
            repository = _repository(model.path.relative_to(folder), origin)
            yield replace(model, repository=repository)


def models_in(folder: Path, origin: Origin = Origin.EDGEKV) -> Iterator[LocalModel]:
    """The models in a folder itself; none if it cannot be read. A set that lacks a file is none."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix.lower() == SUFFIX)
    except OSError:
        return
    for path in paths:
        files = files_of(path)
        if path == files[0] and not is_companion(path.name) and _are_files(files):
            yield LocalModel(_name(path), path, files, origin)


def files_of(path: Path) -> tuple[Path, ...]:
    """The file, or all files of the set it belongs to, the first one first."""
    split = read_split_name(path.name)
    return tuple(path.with_name(name) for name in split.names()) if split else (path,)


def _name(path: Path) -> str:
    split = read_split_name(path.name)
    return split.base if split else path.stem


def _are_files(paths: Iterable[Path]) -> bool:
    return all(path.is_file() for path in paths)


def _repository(place: Path, origin: Origin) -> str | None:
    """The repository that a file comes from, told by the folders it is in."""
    parts = place.parts[:-1]
    if origin is Origin.HUGGING_FACE:  # models--owner--name/snapshots/commit/…
        words = parts[0].split("--") if parts else []
        return "/".join(words[1:3]) if len(words) == 3 and words[0] == "models" else None
    return "/".join(parts[:2]) if len(parts) >= 2 else None


def _ollama_models(folder: Path) -> Iterator[LocalModel]:
    """Ollama keeps weights under their hash; manifests give them names like "qwen3:4b"."""
    for place, _, names in os.walk(folder / "manifests"):
        for tag in sorted(names):
            manifest = Path(place, tag)
            blob = _ollama_weights(manifest, folder / "blobs")
            if blob is not None:
                yield LocalModel(_ollama_name(manifest), blob, (blob,), Origin.OLLAMA)


def _ollama_weights(manifest: Path, blobs: Path) -> Path | None:
    try:
        layers = json.loads(manifest.read_bytes())["layers"]
        digests = [layer["digest"] for layer in layers if layer["mediaType"] == _OLLAMA_MODEL]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    paths = [blobs / str(digest).replace(":", "-") for digest in digests]
    return paths[0] if len(paths) == 1 and _are_files(paths) else None


def _ollama_name(manifest: Path) -> str:
    owner, model = manifest.parent.parent.name, manifest.parent.name
    prefix = "" if owner == "library" else f"{owner}/"
    return f"{prefix}{model}:{manifest.name}"
