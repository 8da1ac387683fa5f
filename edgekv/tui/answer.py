"""One answer on the screen, drawn at a steady cost however long it gets."""

from __future__ import annotations

import asyncio
import time

from textual.app import ComposeResult
from textual.theme import Theme
from textual.timer import Timer
from textual.widgets import Static

from edgekv.tui.line import Line
from edgekv.tui.markdown import GrowingMarkdown, StandingMarkdown, code_in, code_theme, cut_settled
from edgekv.tui.spoken import Spoken
from edgekv.tui.thought import ThoughtLine
from edgekv.tui.visible import visible

SECONDS_BETWEEN_DRAWS = 0.1
"""Every draw takes processor time away from the engine, which shares the machine."""
RESTS = 6
"""How many times as long as a draw took there is none: it may take a seventh of a processor."""
MOST_GROWING = 2000
"""Characters. A growing text costs more with each of them, so what is settled stands still."""


class Standing(Static):
    """Markdown that does not change any more: one widget, drawn once for a width and a theme."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def on_mount(self) -> None:
        self._draw(self.app.current_theme)
        self.app.theme_changed_signal.subscribe(self, self._draw)

    def action_copy_code(self, number: int) -> None:
        self.app.copy_to_clipboard(code_in(self._text)[number])
        self.notify("Copied the code", timeout=2)

    def _draw(self, theme: Theme) -> None:
        self.update(StandingMarkdown(self._text, code_theme(theme.ansi, theme.dark)))


class Answer(Spoken):
    """What was thought, text that stands, text that grows, and figures."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.text = ""
        """The exact text once it is finished."""
        self._pending = ""
        self._words = ""
        self._has_gaps = False
        self._rest_until = 0.0
        self._thought = ThoughtLine()
        self._growing: GrowingMarkdown | None = GrowingMarkdown()
        self._figures = Line("", classes="figures")
        self._drawing = asyncio.Lock()
        self._timer: Timer | None = None

    @classmethod
    def finished(cls, position: int, text: str, thought: str, figures: str) -> Answer:
        """One that was written before."""
        answer = cls(position)
        answer.text, answer._growing, answer._words = text, None, figures
        answer._thought.end(thought)
        return answer

    def compose(self) -> ComposeResult:
        if self._thought.has_words or self._growing is not None:
            yield self._thought
        yield self._growing if self._growing is not None else Standing(self.text)
        yield self._figures

    def on_mount(self) -> None:
        self._figures.show(self._words)
        if self._growing is not None:
            self._timer = self.set_interval(SECONDS_BETWEEN_DRAWS, self._draw)

    def grow(self, text: str, figures: str, thought: str = "") -> None:
        """Append text; it is drawn with what else arrives in the same moment."""
        self._pending += text
        self._words = figures
        self._thought.grow(thought)

    async def finish(self, text: str, figures: str, thought: str = "") -> None:
        """Stand still with the whole text."""
        await self.stop_drawing()
        self.text = text
        assert self._growing is not None
        with self.app.batch_update():
            if self._has_gaps:
                await self.query_children(Standing).remove()
                rest = text
            else:
                rest = self._growing.source + visible(self._pending)
            await self._growing.remove()
            await self.mount(Standing(rest), before=self._figures)
            if not thought:
                await self._thought.remove()
        self._thought.end(thought)
        self._figures.show(figures)

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
            if began < self._rest_until or self._growing is None:
                return
            self._figures.show(self._words)
            self._thought.draw()
            text, self._pending = self._pending[:MOST_GROWING], self._pending[MOST_GROWING:]
            if text:
                await self._growing.append(visible(text))
            if len(self._growing.source) > MOST_GROWING:
                await self._settle()
            self._rest_after(began)
            self.call_after_refresh(self._rest_after, began)

    def _rest_after(self, began: float) -> None:
        """Rest once from what has been done so far, and again when it is on the screen."""
        now = time.monotonic()
        self._rest_until = now + RESTS * (now - began)

    async def _settle(self) -> None:
        assert self._growing is not None
        cut = cut_settled(self._growing.source)
        if cut.settled:
            self._has_gaps |= cut.leaves_gap
            with self.app.batch_update():
                await self._growing.remove()
                await self.mount(Standing(cut.settled), before=self._figures)
                self._growing = GrowingMarkdown()
                await self.mount(self._growing, before=self._figures)
                await self._growing.append(cut.rest)
