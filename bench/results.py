"""Kept results: one file a version, each load with the machine and the versions it ran on."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgekv import __version__

FOLDER = Path(__file__).parent / "results"
SCHEMA = 1


def file_of_this_version() -> Path:
    return FOLDER / f"{__version__}.json"


def read(path: Path) -> dict[str, Any]:
    """The document, or an empty one where there is none yet."""
    if not path.exists():
        return {"schema": SCHEMA, "edgekv": __version__, "loads": {}}
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if document["schema"] != SCHEMA:
        raise SystemExit(f"{path} has another form; move it away and measure again")
    return document


def merge(path: Path, name: str, load: dict[str, object]) -> None:
    """Put one load into the file, in the place of an earlier one of its name."""
    document = read(path)
    document["loads"][name] = load
    document["loads"] = dict(sorted(document["loads"].items()))
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(path)


def summary(rounds: Sequence[dict[str, object]]) -> dict[str, object]:
    """Of each number its median and range over the rounds; of lists all that occurred.

    A figure that some rounds have not (a server that did not start) is that of the others.
    """
    keys = dict.fromkeys(key for one in rounds for key in one)
    return {key: _summed([one[key] for one in rounds if one.get(key) is not None]) for key in keys}


def _summed(values: Sequence[object]) -> object:
    numbers = [value for value in values if isinstance(value, int | float)]
    if numbers:
        return {"median": statistics.median(numbers), "low": min(numbers), "high": max(numbers)}
    lists = [value for value in values if isinstance(value, list)]
    return sorted({text for value in lists for text in value}) if lists else None
