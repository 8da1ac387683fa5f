"""Verdicts of the gate, kept in files: one a model, device, library version and KV type."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import msgspec

from edgekv.budget.kv_types import Pair
from edgekv.kv.model_digest import model_digest
from edgekv.quality.measures import Measured

logger = logging.getLogger(__name__)

SCHEMA = 2
"""Another one for every change of what a verdict says or of what trials ask."""

REFERENCE: Pair = ("f16", "f16")
"""What every other pair of types is compared with; it is nearly what models are trained in."""


class Verdict(msgspec.Struct, frozen=True):
    kv_type_k: str
    kv_type_v: str
    quick: bool
    """Whether only the quick check was made."""
    objections: tuple[str, ...]
    """Why the type may not be trusted; none if it may."""
    longest: int
    """Tokens of the longest conversation tested: a text, and room for a question about it."""
    measured: Measured
    model: str
    """The model's name, for people."""
    computed_by: str
    """The devices and the library's version."""
    noise: Measured = Measured()
    """What rounding alone does on the same trials: f16 against itself in other pieces."""
    schema: int = SCHEMA

    @property
    def pair(self) -> Pair:
        return self.kv_type_k, self.kv_type_v

    @property
    def passed(self) -> bool:
        return not self.objections


@dataclass(frozen=True, slots=True)
class Subject:
    """What a verdict holds for."""

    path: str
    devices: tuple[str, ...]
    """Names of those that compute."""
    library: str

    @property
    def key(self) -> str:
        """32 hexadecimal digits."""
        digest = blake2b(repr((self.devices, self.library)).encode(), digest_size=16)
        digest.update(model_digest(Path(self.path)))
        return digest.hexdigest()

    @property
    def computed_by(self) -> str:
        return f"{', '.join(self.devices)}; llama-cpp-python {self.library}"


class Verdicts:
    """Those in one folder, which need not exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def of(self, subject: Subject) -> tuple[Verdict, ...]:
        """All that are known. A file that cannot be read is none."""
        found = []
        for path in sorted(self.folder.glob(f"{subject.key}-*.json")):
            try:
                found.append(msgspec.json.decode(path.read_bytes(), type=Verdict))
            except (OSError, msgspec.DecodeError) as error:
                logger.warning("the verdict in %s cannot be read: %s", path, error)
        return tuple(verdict for verdict in found if verdict.schema == SCHEMA)

    def path(self, subject: Subject, verdict: Verdict) -> Path:
        return self.folder / f"{subject.key}-{verdict.kv_type_k}-{verdict.kv_type_v}.json"

    def keep(self, subject: Subject, verdict: Verdict) -> None:
        """Write a verdict, in place of an earlier one. Raises `OSError`.

        A quick check takes nothing from a full one with the same outcome.
        """
        for known in self.of(subject):
            is_less = verdict.quick and not known.quick and known.passed == verdict.passed
            if is_less and known.pair == verdict.pair:
                return
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(subject, verdict)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(msgspec.json.encode(verdict))
        part.replace(path)
