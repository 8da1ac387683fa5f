"""The list above the message box while a command is typed."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from edgekv.tui.commands import Candidate
from edgekv.tui.visible import visible


class Completions(OptionList, can_focus=False):
    """Hidden while there is nothing to choose from."""

    def __init__(self) -> None:
        super().__init__(id="completions", compact=True)
        self._candidates: Sequence[Candidate] = ()
        self.display = False

    @property
    def chosen(self) -> str | None:
        """The text of the marked candidate; None while the list is hidden."""
        if not self.display or self.highlighted is None:
            return None
        return self._candidates[self.highlighted].text

    def offer(self, candidates: Sequence[Candidate]) -> None:
        if candidates != self._candidates:
            self._candidates = candidates
            self.clear_options()
            self.add_options([Option(_words(candidate)) for candidate in candidates])
            self.highlighted = 0 if candidates else None
        self.display = bool(candidates)

    def move(self, steps: int) -> None:
        if self.highlighted is not None:
            self.highlighted = (self.highlighted + steps) % self.option_count


def _words(candidate: Candidate) -> Text:
    words = Text(visible(candidate.text).ljust(12), no_wrap=True, overflow="ellipsis")
    return words.append(f"  {candidate.hint}", style="dim")
