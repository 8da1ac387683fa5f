"""The message box: several lines, sent by Enter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import TextArea

from edgekv.service.attachments import path_in
from edgekv.tui.completions import Completions
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

    @dataclass
    class Dropped(Message):
        """The path of a file was pasted, as terminals do with a file that is dropped on them."""

        path: str
        text: str
        """What was pasted, for the box if the file cannot go with the message."""

    def __init__(self, id: str, completions: Completions) -> None:  # noqa: A002 - Textual's name
        super().__init__(
            id=id,
            placeholder="Type a message",
            tab_behavior="focus",
            highlight_cursor_line=False,
            show_line_numbers=False,
        )
        self._completions = completions
        self._history = InputHistory()
        self._sent = ""

    def accept(self) -> None:
        """The text that was sent is taken: remember it. What was typed since is the next."""
        self._history.add(self._sent)
        if self.text.startswith(self._sent):
            lines = self._sent.split("\n")
            self.delete((0, 0), (len(lines) - 1, len(lines[-1])))
        else:
            self.clear()

    def remember(self, sent: Sequence[str]) -> None:
        """Texts of earlier sessions, the oldest first."""
        for text in sent:
            self._history.add(text)

    def put_back(self, text: str, *, replaces: bool = False) -> None:
        """Show a text that could not be sent, unless something else is being written.

        Where it `replaces` that, the arrow keys find it again.
        """
        if self.text and replaces:
            self._history.add(self.text)
        if not self.text or replaces:
            self._show(text)

    def on_key(self, event: events.Key) -> None:
        # TextArea takes Enter as text before bindings are looked at.
        if event.key == "enter":
            event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        path = path_in(event.text)
        if path is None:
            self._insert_pasted(event.text)
        else:
            self.post_message(self.Dropped(path, event.text))

    def action_paste(self) -> None:
        self._insert_pasted(self.app.clipboard)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._completions.display if action in {"complete", "hide_list"} else True

    def action_send(self) -> None:
        """Send what is written; while a command's name is, the whole of the one that is marked."""
        chosen = self._completions.chosen
        if chosen is not None and chosen != self.text and chosen.startswith(self.text):
            is_name = " " not in self.text and chosen.strip() != self.text
            if is_name:
                self._show(chosen)
            if is_name and chosen.endswith(" "):
                return
        if self.text.strip():
            self._sent = self.text
            self.post_message(self.Sent(self._sent))

    def action_complete(self) -> None:
        if self._completions.chosen is not None:
            self._show(self._completions.chosen)

    def action_hide_list(self) -> None:
        self._completions.offer(())

    def action_new_line(self) -> None:
        self._insert_pasted("\n")

    def action_cursor_up(self, select: bool = False) -> None:
        if self._completions.display:
            self._completions.move(-1)
            return
        text = None if select or self._row() > 0 else self._history.older(self.text)
        if text is None:
            super().action_cursor_up(select)
        else:
            self._show(text)

    def action_cursor_down(self, select: bool = False) -> None:
        if self._completions.display:
            self._completions.move(1)
            return
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
