"""The names of a model in several files: `NAME-00001-of-00003.gguf` and so on."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SPLIT = re.compile(r"(?P<base>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.gguf)", re.I)


@dataclass(frozen=True, slots=True)
class SplitName:
    """The name of one of `count` files; `number` counts from 1."""

    base: str
    number: int
    count: int
    suffix: str = ".gguf"

    def __str__(self) -> str:
        return f"{self.base}-{self.number:05d}-of-{self.count:05d}{self.suffix}"

    def names(self) -> tuple[str, ...]:
        """All files of the set, the first one first."""
        numbers = range(1, self.count + 1)
        return tuple(str(SplitName(self.base, n, self.count, self.suffix)) for n in numbers)


def read_split_name(name: str) -> SplitName | None:
    """What a file name says of a set; None if the file stands alone."""
    match = _SPLIT.fullmatch(name)
    if match is None:
        return None
    number, count = int(match["number"]), int(match["count"])
    if not 1 <= number <= count:
        return None
    return SplitName(match["base"], number, count, match["suffix"])
