"""What was said, from top to bottom."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.theme import Theme
from textual.timer import Timer
from textual.widgets import Static
from textual.widgets.markdown import Markdown, MarkdownStream

from edgekv.tui.markdown import GrowingMarkdown, StandingMarkdown, code_theme
from edgekv.tui.visible import visible

WELCOME = """\
Ask anything.

Enter sends it · Ctrl+J begins a new line · Esc stops an answer
Ctrl+P finds everything else"""

SECONDS_BETWEEN_DRAWS = 0.1
"""Every draw takes processor time away from the engine, which shares the machine."""


class Line(Static):
    """Text as it is: no markup, nothing that a terminal would act on."""

    def __init__(self, text: str, classes: str) -> None:
        super().__init__(visible(text), classes=classes, markup=False)

    def show(self, text: str) -> None:
        self.update(visible(text))


class Answer(Vertical):
    """One answer: growing Markdown while it is written, one static text afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self._text = ""
        self._pending: list[str] = []
        self._growing = GrowingMarkdown()
        self._standing = Static(classes="standing")
        self._figures = Line("", classes="figures")
        self._stream: MarkdownStream | None = None
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        yield self._growing
        yield self._figures

    def on_mount(self) -> None:
        self._stream = Markdown.get_stream(self._growing)
        self._timer = self.set_interval(SECONDS_BETWEEN_DRAWS, self._draw)

    def grow(self, text: str) -> None:
        """Append text; it is drawn with what else arrives in the same moment."""
        self._pending.append(text)

    def show_figures(self, words: str) -> None:
        self._figures.show(words)

    async def finish(self, text: str, figures: str) -> None:
        """Stand still with the whole text."""
        if self._timer is not None:
            self._timer.stop()
        if self._stream is not None:
            await self._stream.stop()
        self._text = text
        with self.app.batch_update():
            await self.mount(self._standing, before=self._figures)
            await self._growing.remove()
        self._draw_standing(self.app.current_theme)
        self.app.theme_changed_signal.subscribe(self, self._draw_standing)
        self.show_figures(figures)

    def _draw_standing(self, theme: Theme) -> None:
        self._standing.update(StandingMarkdown(self._text, code_theme(theme.ansi, theme.dark)))

    async def _draw(self) -> None:
        if self._pending and self._stream is not None:
            text, self._pending = "".join(self._pending), []
            await self._stream.write(visible(text))


class Transcript(VerticalScroll, can_focus=False):
    """Stays at its end unless the user scrolled away from it."""

    def compose(self) -> ComposeResult:
        yield Line(WELCOME, classes="welcome")

    def on_mount(self) -> None:
        self.anchor()

    async def clear(self) -> None:
        await self.query_children().exclude(".welcome").remove()
        self.remove_class("-used")

    async def add_question(self, text: str) -> Line:
        self.add_class("-used")
        question = Line(text, classes="question")
        await self.mount(question)
        self.anchor()
        return question

    async def add_answer(self) -> Answer:
        answer = Answer()
        await self.mount(answer)
        return answer

    async def add_notice(self, text: str) -> None:
        await self.mount(Line(text, classes="notice"))
