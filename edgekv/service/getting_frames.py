"""What the process that gets a model tells its parent: a JSON line each, the last an outcome."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from edgekv.models.transfer import Progress


class Came(msgspec.Struct, frozen=True, tag="came"):
    """So much of the model is here by now."""

    progress: Progress


class Said(msgspec.Struct, frozen=True, tag="said"):
    """A sentence for the user while it goes on."""

    sentence: str


class Got(msgspec.Struct, frozen=True, tag="got"):
    """The model is here."""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """It could not be got."""

    sentence: str


Report: TypeAlias = Came | Said | Got | Refused

_decoder = msgspec.json.Decoder(Report)


def line_of(report: Report) -> bytes:
    return msgspec.json.encode(report) + b"\n"


def read_line(line: bytes) -> Report:
    """Raises `msgspec.DecodeError` for what is no message."""
    return _decoder.decode(line)
