"""What was said, from top to bottom: the end of it, and more of it on demand."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.reactive import Reactive
from textual.widget import Widget

from edgekv.history.entries import Entry
from edgekv.tui.answer import Answer
from edgekv.tui.line import Line
from edgekv.tui.prose import SIDES
from edgekv.tui.question import Question
from edgekv.tui.spoken import Spoken
from edgekv.tui.words import call_words, entry_words

WELCOME = """\
Ask anything.

Enter sends it · Ctrl+J begins a new line · Esc stops an answer
/ lists commands · Ctrl+L lists conversations
Ctrl+P finds everything else"""

BROKEN_OFF = (
    "EdgeKV ended in the middle of this answer; here is what there was of it. "
    "Ctrl+R asks again, Ctrl+N begins a new conversation."
)

MOST_AT_ONCE = 30
"""Messages that are drawn together. Each costs time to lay out, whether it is seen or not."""
MOST_SHOWN = 2 * MOST_AT_ONCE
"""When there are more, the oldest are taken off the screen while nobody looks at them."""


class Earlier(Line):
    """Stands for the messages before those that are shown."""

    def __init__(self) -> None:
        super().__init__("", classes="earlier")
        self.num_hidden = 0

    def show_number(self, num_hidden: int) -> None:
        self.num_hidden = num_hidden
        self.display = num_hidden > 0
        self.show(f"▴ {num_hidden:,} earlier messages · Page Up shows them")


class Transcript(VerticalScroll, can_focus=False):
    """Stays at its end unless the user scrolled away from it."""

    _has_taken_away = False
    """Since garbage was last collected."""

    def compose(self) -> ComposeResult:
        yield Line(WELCOME, classes="welcome")
        yield Earlier()

    def on_mount(self) -> None:
        self.query_one(Earlier).show_number(0)
        self.anchor()

    def set_reactive(self, reactive: Reactive[Any], value: Any) -> None:
        """As Textual does, but never below zero, so that a short conversation begins at the top."""
        is_place = reactive in {Widget.scroll_y, Widget.scroll_target_y}
        super().set_reactive(reactive, max(0, value) if is_place else value)

    async def clear(self) -> None:
        await self.take_away(*self.query_children().exclude(".welcome").exclude(".earlier"))
        self.query_one(Earlier).show_number(0)
        self.remove_class("-used")

    async def show_entries(self, entries: Sequence[Entry]) -> None:
        """A whole conversation in place of what is shown."""
        await self.clear()
        if entries:
            self.add_class("-used")
            start = max(0, len(entries) - MOST_AT_ONCE)
            await self.mount(*await self._widgets(entries, start, len(entries)))
            self.query_one(Earlier).show_number(start)
            self.anchor()

    async def show_earlier(self, entries: Sequence[Entry]) -> None:
        """A few more of the messages before those that are shown."""
        earlier = self.query_one(Earlier)
        if earlier.num_hidden:
            start = max(0, earlier.num_hidden - MOST_AT_ONCE)
            added = await self._widgets(entries, start, earlier.num_hidden)
            at, height = self.scroll_y, self.virtual_size.height
            earlier.show_number(start)
            await self.mount(*added, after=earlier)

            def stay() -> None:
                self.scroll_to(y=at + self.virtual_size.height - height, animate=False)

            self.call_after_refresh(stay)

    async def begin_turn(self, question: Question, answer: Answer) -> None:
        """Put an answer below its question and nothing else: an earlier one is taken away."""
        self.add_class("-used")
        if question.is_attached:
            await self.take_away(*self.children[self.children.index(question) + 1 :])
        else:
            await self.mount(question)
        await self.mount(answer)
        self._collect_garbage()
        await self._hide_oldest()
        self.anchor()

    def go_to(self, position: int) -> None:
        """Focus the message there, or the first one that is shown of those after it."""
        first = next((s for s in self.query(Spoken) if s.position >= position), None)
        if first is not None:
            first.focus()

    async def take_away(self, *widgets: Widget) -> None:
        self._has_taken_away = self._has_taken_away or bool(widgets)
        for widget in widgets:
            if isinstance(widget, Answer):
                await widget.stop_drawing()
            await widget.remove()

    async def add_notice(self, text: str) -> None:
        """Something that comes by itself: who reads further up goes on reading there."""
        await self._add(text, "notice")

    async def reply(self, text: str, kind: str = "info") -> None:
        """What somebody has just asked for, so it is gone to."""
        await self._add(text, kind)
        self.anchor()

    @property
    def prose_width(self) -> int:
        """Columns of an answer's text."""
        return self.scrollable_content_region.width - SIDES

    async def _widgets(self, entries: Sequence[Entry], start: int, end: int) -> list[Widget]:
        """Drawn already: many at once would take all the time that keys wait for."""
        widgets = [_widget(number, entries[number]) for number in range(start, end)]
        for widget in widgets:
            if isinstance(widget, Answer) and self.prose_width > 0:
                await widget.prepare(self.prose_width)
        return widgets

    async def _add(self, text: str, kind: str) -> None:
        self.add_class("-used")
        await self.mount(Line(text, classes=kind))

    async def _hide_oldest(self) -> None:
        spoken = list(self.query(Spoken))
        if len(spoken) > MOST_SHOWN:
            first_kept = spoken[-MOST_AT_ONCE]
            earlier = self.query_one(Earlier)
            start = self.children.index(earlier) + 1
            await self.take_away(*self.children[start : self.children.index(first_kept)])
            earlier.show_number(first_kept.position)

    def _collect_garbage(self) -> None:
        """Now, when somebody has just sent something and no key is waited for.

        By itself Python looks through all that is on the screen whenever it likes: a third of a
        second in a long conversation. What is left now is not looked through again until some of
        it was taken away.
        """
        if self._has_taken_away:
            self._has_taken_away = False
            gc.unfreeze()
        gc.collect()
        gc.freeze()


def _widget(position: int, entry: Entry) -> Widget:
    message = entry.message
    if message.role != "assistant":
        return Question(position, message.content, message.role)
    calls = "".join(f"\n\n{call_words(call)}" for call in message.tool_calls)
    return Answer.finished(position, message.content + calls, message.thought, entry_words(entry))
