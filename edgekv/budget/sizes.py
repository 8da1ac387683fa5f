"""Byte counts and other numbers as people write and read them."""

from __future__ import annotations

import re
from decimal import Decimal

_UNITS = {
    "": 1,
    "b": 1,
    **{letter: 1024**power for power, letter in enumerate("kmgt", start=1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", start=1)},
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", start=1)},
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.ASCII)


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
