"""What trials measured, in files: of interrupted runs, and of f16 itself for every run to come."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from edgekv.budget.kv_types import Pair
from edgekv.quality.measures import Measured
from edgekv.quality.trials import Trial
from edgekv.quality.verdicts import SCHEMA, Subject


class KeptTrials:
    """A folder a model and pair of KV types, a file a trial."""

    def __init__(self, folder: Path) -> None:
        """`folder` need not exist."""
        self._folder = folder

    def of(self, subject: Subject, pair: Pair, trial: Trial) -> Measured | None:
        """None if the trial was not finished, or its file not written to the end."""
        try:
            return msgspec.json.decode(self._path(subject, pair, trial).read_bytes(), type=Measured)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def keep(self, subject: Subject, pair: Pair, trial: Trial, measured: Measured) -> None:
        """Raises `OSError`."""
        path = self._path(subject, pair, trial)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(measured))

    def drop(self, subject: Subject, pair: Pair) -> None:
        """Forget what was kept for a verdict that has been given."""
        shutil.rmtree(self._of_pair(subject, pair), ignore_errors=True)

    def _of_pair(self, subject: Subject, pair: Pair) -> Path:
        return self._folder / f"{SCHEMA}-{subject.key}-{pair[0]}-{pair[1]}"

    def _path(self, subject: Subject, pair: Pair, trial: Trial) -> Path:
        return self._of_pair(subject, pair) / f"{trial.name}.json"
