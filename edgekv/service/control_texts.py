"""Keeps control tokens that a user typed from becoming control tokens.

A template mixes its own text, where `<|im_end|>` ends a turn, with the user's, where it is seven
characters. Before rendering, each such text in the user's words is replaced by one character
that nobody uses; it goes through the template whole, whatever that trims or splits, and tells
afterwards which is which.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from edgekv.core.request import Segment

Json: TypeAlias = "str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None"

_PRIVATE_USE = range(0xF0000, 0xFFFFE)
"""Plane 15: characters without a meaning, and more of them than any vocabulary has controls."""


class ControlTexts:
    """The texts that one vocabulary reads as control tokens."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = frozenset(texts)
        self._lengths = sorted({len(text) for text in self._texts}, reverse=True)
        first = "".join(re.escape(c) for c in sorted({text[0] for text in self._texts}))
        # A vocabulary may have thousands; one alternation of all of them would be tried at
        # every "<". `(?!)` never matches.
        self._starts = re.compile(f"[{first}]" if first else "(?!)")

    def split(self, text: str) -> Iterator[tuple[str, bool]]:
        """The pieces of `text` and whether each is a control text; the longest that fits wins."""
        done = 0
        for match in self._starts.finditer(text):
            start = match.start()
            length = self._length_at(text, start) if start >= done else 0
            if length:
                yield text[done:start], False
                done = start + length
                yield text[start:done], True
        yield text[done:], False

    def _length_at(self, text: str, start: int) -> int:
        return next((n for n in self._lengths if text[start : start + n] in self._texts), 0)


class StandIns:
    """The characters that stand for control texts in one rendering.

    `taken` is text that must not hold any of them.
    """

    def __init__(self, controls: ControlTexts, taken: str) -> None:
        self._controls = controls
        self._unused = (c for c in map(chr, _PRIVATE_USE) if c not in taken)
        self._by_text: dict[str, str] = {}

    def hide(self, value: Json) -> Json:
        """`value` with every control text in its strings replaced."""
        if isinstance(value, str):
            return "".join(
                self._stand_in(piece) if is_control else piece
                for piece, is_control in self._controls.split(value)
            )
        if isinstance(value, Mapping):
            return {str(self.hide(key)): self.hide(item) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [self.hide(item) for item in value]
        return value

    def segments(self, rendered: str) -> tuple[Segment, ...]:
        """The rendered text, the control texts back in their places as plain text."""
        plain = {stand_in: text for text, stand_in in self._by_text.items()}
        # A template may escape what is not ASCII when it writes JSON.
        plain |= {_escaped(stand_in): _escaped(text) for stand_in, text in plain.items()}
        if not plain:
            return (Segment(rendered, control=True),)
        pieces = re.split(f"({'|'.join(map(re.escape, plain))})", rendered)
        return tuple(Segment(plain.get(p, p), control=p not in plain) for p in pieces if p)

    def _stand_in(self, text: str) -> str:
        if text not in self._by_text:
            self._by_text[text] = next(self._unused)
        return self._by_text[text]


def _escaped(text: str) -> str:
    return json.dumps(text)[1:-1]
