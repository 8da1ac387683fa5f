"""The folders that models are in: EdgeKV's own, and those of programs that have models too.

In EdgeKV's own, files are put and deleted. The others are only read: their files are used where
they are, never copied or changed.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path

from edgekv.config.places import data_folder, made

VARIABLE = "EDGEKV_MODELS"


class Origin(StrEnum):
    """Whose folder a model is in."""

    EDGEKV = "edgekv"
    HUGGING_FACE = "huggingface"
    LM_STUDIO = "lmstudio"
    LLAMA_CPP = "llama.cpp"
    OLLAMA = "ollama"


def own_folders() -> tuple[Path, ...]:
    """EdgeKV's folders that may hold models, the first to look in first.

    `EDGEKV_MODELS` stands in for all others where it is set. Where `HF_HOME` says which disk
    downloads belong on, ours are there too.
    """
    if chosen := os.environ.get(VARIABLE):
        return (Path(chosen).expanduser().absolute(),)
    beside_package = Path(__file__).resolve().parents[2] / "models"
    data = data_folder()
    folders = (beside_package, _beside_hugging_face(), data / "models" if data else None)
    return tuple(folder for folder in folders if folder is not None)


def pull_folder() -> Path:
    """Where pulled and imported models go. Raises `Unavailable` where there is no such place."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser().absolute()
    if beside := _beside_hugging_face():
        return beside
    if data := data_folder():
        return data / "models"
    return made(None, "models")


def other_folders() -> tuple[tuple[Origin, Path], ...]:
    """Folders of other programs, whether they exist or not."""
    home = Path(os.path.expanduser("~"))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    hugging_face = Path(os.environ.get("HF_HOME") or cache / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or hugging_face / "hub")
    return (
        (Origin.HUGGING_FACE, hub.expanduser()),
        (Origin.LM_STUDIO, home / ".lmstudio" / "models"),
        (Origin.LM_STUDIO, cache / "lm-studio" / "models"),
        (Origin.LLAMA_CPP, Path(os.environ.get("LLAMA_CACHE") or cache / "llama.cpp")),
        (Origin.OLLAMA, Path(os.environ.get("OLLAMA_MODELS") or home / ".ollama" / "models")),
        (Origin.OLLAMA, Path("/usr/share/ollama/.ollama/models")),
    )


def _beside_hugging_face() -> Path | None:
    chosen = os.environ.get("HF_HOME")
    return Path(chosen).expanduser().absolute() / "edgekv" if chosen else None
