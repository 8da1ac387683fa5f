"""One answer on the screen, drawn at a steady cost however long it gets."""

from __future__ import annotations

import asyncio
import time

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.theme import Theme
from textual.timer import Timer
from textual.widgets import Static

from edgekv.tui.line import Line
from edgekv.tui.markdown import GrowingMarkdown, StandingMarkdown, code_theme, cut_settled
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

    def _draw(self, theme: Theme) -> None:
        self.update(StandingMarkdown(self._text, code_theme(theme.ansi, theme.dark)))


class Answer(Vertical):
    """Text that stands, text that grows, and figures."""

    def __init__(self) -> None:
        super().__init__()
        self._pending = ""
        self._words = ""
        self._has_gaps = False
        self._rest_until = 0.0
        self._growing = GrowingMarkdown()
        self._figures = Line("", classes="figures")
        self._drawing = asyncio.Lock()
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        yield self._growing
        yield self._figures

    def on_mount(self) -> None:
        self._timer = self.set_interval(SECONDS_BETWEEN_DRAWS, self._draw)

    def grow(self, text: str, figures: str) -> None:
        """Append text; it is drawn with what else arrives in the same moment."""
        self._pending += text
        self._words = figures

    async def finish(self, text: str, figures: str) -> None:
        """Stand still with the whole text."""
        await self.stop_drawing()
        with self.app.batch_update():
            if self._has_gaps:
                await self.query_children(Standing).remove()
                rest = text
            else:
                rest = self._growing.source + visible(self._pending)
            await self._growing.remove()
            await self.mount(Standing(rest), before=self._figures)
        self._figures.show(figures)

    async def stop_drawing(self) -> None:
        """What is half drawn is finished first; nothing is drawn afterwards."""
        async with self._drawing:
            if self._timer is not None:
                self._timer.stop()

    async def _draw(self) -> None:
        async with self._drawing:
            began = time.monotonic()
            if began < self._rest_until:
                return
            self._figures.show(self._words)
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
        cut = cut_settled(self._growing.source)
        if cut.settled:
            self._has_gaps |= cut.leaves_gap
            with self.app.batch_update():
                await self._growing.remove()
                await self.mount(Standing(cut.settled), before=self._figures)
                self._growing = GrowingMarkdown()
                await self.mount(self._growing, before=self._figures)
                await self._growing.append(cut.rest)
