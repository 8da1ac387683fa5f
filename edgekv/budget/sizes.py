"""Byte counts and other numbers as people write and read them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

_UNITS = {
    "": 1,
    "b": 1,
    **{letter: 1024**power for power, letter in enumerate("kmgt", start=1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", start=1)},
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", start=1)},
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.ASCII)
_PERCENT = re.compile(r"(\d{1,2}(?:\.\d{1,4})?)\s*%", re.ASCII)


@dataclass(frozen=True, slots=True)
class Reserve:
    """What stays with the rest of the system: an amount, or a part of all memory."""

    num_bytes: int = 0
    percent: Decimal | None = None

    def of(self, total_bytes: int) -> int:
        """Bytes, on a host with so many in all."""
        if self.percent is None:
            return self.num_bytes
        return int(total_bytes * self.percent / 100)

    def __str__(self) -> str:
        return format_size(self.num_bytes) if self.percent is None else f"{self.percent}%"


def parse_reserve(text: str) -> Reserve:
    """A size as `parse_size` reads it, or "10%". Raises `ValueError`, a sentence for the user."""
    if match := _PERCENT.fullmatch(text.strip()):
        return Reserve(percent=Decimal(match[1]))
    if "%" in text:
        raise ValueError(f"'{text}' is not a part of all memory; write it like 10%, below 100%.")
    return Reserve(parse_size(text))


def parse_size(text: str) -> int:
    """Bytes of "512MiB", "4G" (the same as GiB), "1.5GB" (powers of 1000) or a plain number.

    Raises `ValueError`, whose text is a sentence for the user.
    """
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"'{text}' is not a size; write it like 512MiB, 4GiB or 4G.")
    num_bytes = Decimal(match[1]) * _UNITS[match[2]]
    if num_bytes >= 2**63:
        raise ValueError(f"'{text}' is more than any address can reach.")
    return int(num_bytes)


def format_size(num_bytes: int) -> str:
    """ "180.0 MiB": four digits at most, in the unit that keeps the number below 1,024."""
    if abs(num_bytes) < 1024:
        return f"{num_bytes} B"
    value = float(num_bytes)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if abs(value) < 1023.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} TiB"


def counted(number: int, noun: str) -> str:
    """ "1 slot", "1,024 slots"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
