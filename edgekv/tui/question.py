"""What the user said, or what the model was told before: whole, or its beginning if it is long."""

from __future__ import annotations

from dataclasses import dataclass

from textual.app import ComposeResult

from edgekv.tui.line import Line
from edgekv.tui.spoken import Spoken

MOST_LINES, MOST_CHARACTERS = 12, 1200
"""What is longer is folded: an attached file need not be scrolled past."""


@dataclass(frozen=True, slots=True)
class Folded:
    head: str
    rest: str
    """In words; nothing if the head is all there is."""


def fold(text: str) -> Folded:
    """The beginning of a long text, and how much more there is."""
    lines = text.splitlines(keepends=True)
    head = "".join(lines[:MOST_LINES])[:MOST_CHARACTERS]
    if head == text:
        return Folded(text, "")
    num_more = len(lines) - len(head.splitlines())
    more = f"{num_more:,} more lines" if num_more > 1 else f"{len(text) - len(head):,} more letters"
    return Folded(head.rstrip("\n"), f"… {more} · enter shows them")


class Question(Spoken):
    def __init__(self, position: int, text: str, role: str = "user") -> None:
        super().__init__(position, classes=f"question -{role}")
        self._text = text
        self._folded = fold(text)
        self._is_whole = not self._folded.rest

    def compose(self) -> ComposeResult:
        yield Line(self._folded.head, classes="words")
        if self._folded.rest:
            yield Line(self._folded.rest, classes="more")

    def toggle(self) -> None:
        if self._folded.rest:
            self._is_whole = not self._is_whole
            words, more = self.query(Line)
            words.show(self._text if self._is_whole else self._folded.head)
            more.show("enter folds it" if self._is_whole else self._folded.rest)
