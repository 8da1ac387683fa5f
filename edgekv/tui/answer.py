"""One answer on the screen, drawn at a steady cost however long it gets."""

from __future__ import annotations

import asyncio
import time

from textual.app import ComposeResult
from textual.timer import Timer

from edgekv.tui.line import Line
from edgekv.tui.markdown import code_in
from edgekv.tui.prose import Prose
from edgekv.tui.spoken import Spoken
from edgekv.tui.thought import ThoughtLine

SECONDS_BETWEEN_DRAWS = 0.1
"""Every draw takes processor time away from the engine, which shares the machine."""
RESTS = 6
"""How many times as long as a draw took there is none: it may take a seventh of a processor."""
MOST_AT_ONCE = 2000
"""Characters that are drawn together, so that what comes in a flood is drawn in several steps."""


class Answer(Spoken):
    """What was thought, the text, and figures."""

    def __init__(self, position: int, text: str | None = None) -> None:
        """Without a `text` it grows."""
        super().__init__(position)
        self.text = text or ""
        """The exact text once it is finished."""
        self._pending = ""
        self._words = ""
        self._rest_until = 0.0
        self._is_growing = text is None
        self._thought = ThoughtLine()
        self._prose = Prose(self.text)
        self._figures = Line("", classes="figures")
        self._drawing = asyncio.Lock()
        self._timer: Timer | None = None

    @classmethod
    def finished(cls, position: int, text: str, thought: str, figures: str) -> Answer:
        """One that was written before."""
        answer = cls(position, text)
        answer._words = figures
        answer._thought.end(thought)
        return answer

    def compose(self) -> ComposeResult:
        if self._thought.has_words or self._is_growing:
            yield self._thought
        yield self._prose
        yield self._figures

    def on_mount(self) -> None:
        self._figures.show(self._words)
        if self._is_growing:
            self._timer = self.set_interval(SECONDS_BETWEEN_DRAWS, self._draw)

    def grow(self, text: str, figures: str, thought: str = "") -> None:
        """Append text; it is drawn with what else arrives in the same moment."""
        self._pending += text
        self._words = figures
        self._thought.grow(thought)

    async def finish(self, text: str, figures: str, thought: str = "") -> None:
        """Stand still with the whole text."""
        await self.stop_drawing()
        self.text, self._is_growing = text, False
        await self._prose.end(text)
        self._thought.end(thought)
        if not thought:
            await self._thought.remove()
        self._figures.show(figures)

    async def prepare(self, width: int) -> None:
        """Draw the text in so many columns before it is laid out."""
        await self._prose.prepare(width)

    async def stop_drawing(self) -> None:
        """What is half drawn is finished first; nothing is drawn afterwards."""
        async with self._drawing:
            if self._timer is not None:
                self._timer.stop()

    def toggle(self) -> None:
        self._thought.toggle()

    def code(self) -> tuple[str, ...]:
        return code_in(self.text)

    async def _draw(self) -> None:
        async with self._drawing:
            began = time.monotonic()
            if began < self._rest_until:
                return
            self._figures.show(self._words)
            self._thought.draw()
            text, self._pending = self._pending[:MOST_AT_ONCE], self._pending[MOST_AT_ONCE:]
            if text:
                await self._prose.grow(text)
            self._rest_after(began)
            self.call_after_refresh(self._rest_after, began)

    def _rest_after(self, began: float) -> None:
        """Rest once from what has been done so far, and again when it is on the screen."""
        now = time.monotonic()
        self._rest_until = now + RESTS * (now - began)
