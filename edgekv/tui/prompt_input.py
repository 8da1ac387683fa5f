"""The message box: several lines, sent by Enter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import TextArea

from edgekv.tui.input_history import InputHistory
from edgekv.tui.keys import PROMPT_KEYS
from edgekv.tui.visible import typeable


class PromptInput(TextArea):
    """Posts `Sent`; whoever takes the message calls `accept`, else the text stays."""

    BINDINGS: ClassVar[list[BindingType]] = PROMPT_KEYS

    @dataclass
    class Sent(Message):
        """The user wants this text sent."""

        text: str

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(
            id=id,
            placeholder="Type a message",
            tab_behavior="focus",
            highlight_cursor_line=False,
            show_line_numbers=False,
        )
        self._history = InputHistory()

    def accept(self) -> None:
        """The text was taken: remember it and make room for the next."""
        self._history.add(self.text)
        self.clear()

    def put_back(self, text: str) -> None:
        """Show a text that could not be sent, unless something else is being written."""
        if not self.text:
            self._show(text)

    def on_key(self, event: events.Key) -> None:
        # TextArea takes Enter as text before bindings are looked at.
        if event.key == "enter":
            event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        self._insert_pasted(event.text)

    def action_paste(self) -> None:
        self._insert_pasted(self.app.clipboard)

    def action_send(self) -> None:
        if self.text.strip():
            self.post_message(self.Sent(self.text))

    def action_new_line(self) -> None:
        self._insert_pasted("\n")

    def action_cursor_up(self, select: bool = False) -> None:
        text = None if select or self._row() > 0 else self._history.older(self.text)
        if text is None:
            super().action_cursor_up(select)
        else:
            self._show(text)

    def action_cursor_down(self, select: bool = False) -> None:
        is_last = self._row() == self.wrapped_document.height - 1
        text = None if select or not is_last else self._history.newer(self.text)
        if text is None:
            super().action_cursor_down(select)
        else:
            self._show(text)

    def _row(self) -> int:
        """The row of the cursor, counting wrapped lines."""
        return self.wrapped_document.location_to_offset(self.cursor_location).y

    def _show(self, text: str) -> None:
        self.load_text(text)
        self.move_cursor(self.document.end)

    def _insert_pasted(self, text: str) -> None:
        start, end = self.selection
        self.move_cursor(self.replace(typeable(text), start, end).end_location)
