"""What was said, from top to bottom."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widget import Widget

from edgekv.tui.answer import Answer
from edgekv.tui.line import Line

WELCOME = """\
Ask anything.

Enter sends it · Ctrl+J begins a new line · Esc stops an answer
Ctrl+P finds everything else"""


class Transcript(VerticalScroll, can_focus=False):
    """Stays at its end unless the user scrolled away from it."""

    def compose(self) -> ComposeResult:
        yield Line(WELCOME, classes="welcome")

    def on_mount(self) -> None:
        self.anchor()

    async def clear(self) -> None:
        await self.take_away(*self.query_children().exclude(".welcome"))
        self.remove_class("-used")

    async def begin_turn(self, question: Line, answer: Answer) -> None:
        """Put an answer below its question and nothing else: an earlier one is taken away."""
        self.add_class("-used")
        if question.is_attached:
            await self.take_away(*self.children[self.children.index(question) + 1 :])
        else:
            await self.mount(question)
        await self.mount(answer)
        self.anchor()

    async def take_away(self, *widgets: Widget) -> None:
        for widget in widgets:
            if isinstance(widget, Answer):
                await widget.stop_drawing()
            await widget.remove()

    async def add_notice(self, text: str) -> None:
        await self.mount(Line(text, classes="notice"))
