"""What a model thought before it answered: one line that unfolds."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical

from edgekv.tui.line import Line

LAST_CHARACTERS = 1500
"""Of a thought that still grows: all of it would cost more to draw with each word."""


class ThoughtLine(Vertical):
    """Takes no room while there is no thought."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[str] = []
        self._num_words = 0
        self._is_growing = True
        self._is_open = False

    @property
    def has_words(self) -> bool:
        return self._num_words > 0

    def compose(self) -> ComposeResult:
        yield Line("", classes="summary")
        yield Line("", classes="words")

    def on_mount(self) -> None:
        self.draw()

    def on_click(self) -> None:
        self.toggle()

    def grow(self, text: str) -> None:
        """It is drawn by `draw`."""
        if text:
            self._pieces.append(text)
            self._num_words += len(text.split())

    def end(self, text: str) -> None:
        """This is the whole thought."""
        self._pieces, self._num_words, self._is_growing = [text], len(text.split()), False
        if self.is_attached:
            self.draw()

    def toggle(self) -> None:
        self._is_open = not self._is_open
        self.draw()

    def draw(self) -> None:
        self.display = self.has_words
        if not self.has_words:
            return
        summary, words = self.query(Line)
        doing = "thinking" if self._is_growing else "thought"
        summary.show(f"{'▾' if self._is_open else '▸'} {doing} · {self._num_words:,} words")
        words.display = self._is_open
        if self._is_open:
            words.show(self._shown().strip())

    def _shown(self) -> str:
        if not self._is_growing:
            return "".join(self._pieces)
        last: list[str] = []
        length = 0
        for piece in reversed(self._pieces):
            last.append(piece)
            length += len(piece)
            if length > LAST_CHARACTERS:
                return "… " + "".join(reversed(last))
        return "".join(reversed(last))
