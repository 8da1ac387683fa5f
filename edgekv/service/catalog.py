"""Where model files are."""

from __future__ import annotations

import os
from pathlib import Path

from edgekv.config.places import data_folder
from edgekv.errors import ModelError

STARTER_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def find_model(name: str | None) -> Path:
    """The file a user means: a path to a .gguf file, or None for the starter model.

    Raises `ModelError` if it is not there.
    """
    if name is None:
        return starter_model()
    path = Path(os.path.expanduser(name))
    if path.is_file():
        return path
    reason = "is a folder" if path.is_dir() else "does not exist"
    raise ModelError(f"'{name}' {reason}; give the path of a .gguf file.")


def starter_model() -> Path:
    """The small model for a first try. Raises `ModelError` if it is in none of the folders."""
    for folder in model_folders():
        if (folder / STARTER_FILE).is_file():
            return folder / STARTER_FILE
    raise ModelError(
        "The starter model is not here; run 'make model' to get it, "
        "or give the path of a .gguf file."
    )


def model_folders() -> tuple[Path, ...]:
    """Folders that may hold models, the first to look in first.

    `EDGEKV_MODELS` stands in for the others where it is set.
    """
    chosen = os.environ.get("EDGEKV_MODELS")
    if chosen:
        return (Path(os.path.expanduser(chosen)),)
    beside_package = Path(__file__).resolve().parents[2] / "models"
    data = data_folder()
    return (beside_package,) if data is None else (beside_package, data / "models")
