"""What is kept in EdgeKV's own model folders: files put there, deleted, and counted."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from edgekv.errors import ModelError
from edgekv.models.disk import check_free_space, on_disk
from edgekv.models.folders import Origin, other_folders, own_folders
from edgekv.models.gguf_walk import walk_file
from edgekv.models.shelf import LocalModel, files_of, local_models
from edgekv.models.transfer import PART_SUFFIX


@dataclass(frozen=True, slots=True)
class DiskUse:
    """What one folder holds."""

    folder: Path
    origin: Origin
    num_models: int
    model_bytes: int
    part_bytes: int
    """Downloads that did not come to their end; only ours are looked for."""


def disk_use() -> tuple[DiskUse, ...]:
    """The known folders that hold anything. A file that two of them share counts in the first."""
    models = local_models()
    folders = [(Origin.EDGEKV, folder) for folder in own_folders()]
    uses = (_use(origin, folder, models) for origin, folder in [*folders, *other_folders()])
    return tuple(use for use in uses if use.num_models or use.part_bytes)


def _use(origin: Origin, folder: Path, models: tuple[LocalModel, ...]) -> DiskUse:
    here = [one for one in models if one.origin is origin and folder in one.path.parents]
    parts = _parts(folder) if origin is Origin.EDGEKV else []
    return DiskUse(
        folder,
        origin,
        len(here),
        sum(one.num_bytes for one in here),
        sum(part.stat().st_size for part in parts),
    )


def remove(model: LocalModel) -> None:
    """Delete a model's files and the folders that are empty then.

    Raises `ModelError` for a model of another program, `Unavailable` where the disk refuses.
    """
    if not model.is_ours:
        raise ModelError(
            f"{model.path} belongs to another program ({model.origin}); delete it there."
        )
    with on_disk(model.path.parent):
        for file in model.files:
            file.unlink()
        _prune(model.path.parent)


def remove_parts() -> int:
    """Delete downloads that did not come to their end; returns the bytes that are free then."""
    freed = 0
    for folder in own_folders():
        for part in _parts(folder):
            with on_disk(folder):
                size = part.stat().st_size
                part.unlink()
                _prune(part.parent)
            freed += size
    return freed


def import_model(path: Path, folder: Path) -> Path:
    """Put a model that lies elsewhere into `folder`; returns the file to open there.

    The original stays; where the disk allows, both are one file. Raises `ModelError` if it is no
    whole model, or if another one has its name already.
    """
    files = files_of(path)
    for file in files:
        check_model_file(file)
    targets = [folder / file.name for file in files]
    taken = [target for target in targets if target.exists()]
    if taken:
        raise ModelError(f"{taken[0]} is there already; delete it first, or rename {path.name}.")
    with on_disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for file, target in zip(files, targets, strict=True):
        _put(file.resolve(), target)
    return targets[0]


def check_model_file(path: Path) -> None:
    """Raises `ModelError` if the header of `path` is not that of a model."""
    try:
        walk_file(path)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.") from error
    except ModelError as error:
        raise ModelError(f"{path} cannot be used: {error}.") from error


def _put(file: Path, target: Path) -> None:
    try:
        os.link(file, target)
    except OSError:  # another disk, or one that knows no links
        check_free_space(target.parent, file.stat().st_size)
        part = target.with_name(f"{target.name}.import{PART_SUFFIX}")
        with on_disk(target.parent):
            shutil.copyfile(file, part)
            os.replace(part, target)


def _parts(folder: Path) -> list[Path]:
    return sorted(folder.rglob(f"*{PART_SUFFIX}"))


def _prune(folder: Path) -> None:
    """Delete empty folders from here up, EdgeKV's own excepted."""
    own = own_folders()
    while folder not in own and any(parent in own for parent in folder.parents):
        if any(folder.iterdir()):
            return
        folder.rmdir()
        folder = folder.parent
