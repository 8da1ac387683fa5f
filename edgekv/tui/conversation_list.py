"""The list of conversations beside the one that is open."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from edgekv.errors import NotSaved
from edgekv.history.archive import Archive
from edgekv.history.dialogue import Dialogue
from edgekv.history.entries import ConversationId, Listed
from edgekv.tui.keys import LIST_KEYS
from edgekv.tui.visible import visible

SEARCH, RENAME = "Search", "New name"


class SafeInput(Input):
    """Nothing that is pasted here can drive the terminal."""

    def replace(self, text: str, start: int, end: int) -> None:
        super().replace(visible(text), start, end)

    def insert(self, text: str, index: int) -> None:
        super().insert(visible(text), index)


class ConversationList(Vertical):
    """One box for what is searched, or for a new name; the arrow keys move in the list below."""

    BINDINGS: ClassVar[list[BindingType]] = LIST_KEYS

    @dataclass
    class Opened(Message):
        """None: what was open is deleted, so begin a new one beside the list."""

        conversation: ConversationId | None

    class Closed(Message):
        """The user is done with the list."""

    def __init__(self, archive: Archive, dialogue: Dialogue) -> None:
        super().__init__(id="conversations")
        self._archive, self._dialogue = archive, dialogue
        self._listed: Sequence[Listed] = ()
        self._renaming: ConversationId | None = None
        self._words = ""
        self.display = False

    def compose(self) -> ComposeResult:
        yield SafeInput(placeholder=SEARCH, compact=True)
        yield OptionList(compact=True)

    def open(self) -> None:
        self.display = True
        self.screen.add_class("-listing")
        self._stop_renaming()
        self.query_one(Input).focus()
        self.refresh_list()

    def close(self) -> None:
        self.display = False
        self.screen.remove_class("-listing")

    def refresh_list(self) -> None:
        """Read it again: something has changed."""
        if self.display:
            with self._saying_why():
                self._show(self._archive.history.listed(self._words))

    def _show(self, listed: Sequence[Listed]) -> None:
        options = self.query_one(OptionList)
        marked = self._marked.id if self._marked else self._dialogue.id
        self._listed = listed
        options.clear_options()
        now = time.time()
        options.add_options([Option(_words(r, r.id == self._dialogue.id, now)) for r in listed])
        places = [n for n, row in enumerate(listed) if row.id == marked]
        options.highlighted = places[0] if places else (0 if listed else None)
        if not listed:
            options.add_option(
                Option("nothing found" if self._words else "none yet", disabled=True)
            )

    @contextmanager
    def _saying_why(self) -> Iterator[None]:
        try:
            yield
        except NotSaved as error:
            self.notify(str(error), severity="warning", markup=False)

    @property
    def _marked(self) -> Listed | None:
        number = self.query_one(OptionList).highlighted
        in_list = number is not None and number < len(self._listed)
        return self._listed[number] if in_list and number is not None else None

    @on(Input.Changed)
    def _search(self, message: Input.Changed) -> None:
        message.stop()
        if self._renaming is None:
            self._words = message.value
            self.refresh_list()

    @on(Input.Submitted)
    def _enter(self, message: Input.Submitted) -> None:
        message.stop()
        self.action_open()

    @on(OptionList.OptionSelected)
    def _choose(self, message: OptionList.OptionSelected) -> None:
        message.stop()
        self._stop_renaming()
        self.action_open()

    def action_open(self) -> None:
        renaming, title = self._renaming, self.query_one(Input).value.strip()
        if renaming is not None:
            self._stop_renaming()
            self._rename(renaming, title)
        elif self._marked is not None:
            self.post_message(self.Opened(self._marked.id))

    def _rename(self, conversation: ConversationId, title: str) -> None:
        with self._saying_why():
            if title and conversation == self._dialogue.id:
                self._dialogue.rename(title)
            elif title:
                self._archive.history.rename(conversation, title)
        self.refresh_list()

    def action_move(self, steps: int) -> None:
        options = self.query_one(OptionList)
        if options.highlighted is not None and self._renaming is None:
            last = options.option_count - 1
            options.highlighted = min(max(options.highlighted + steps, 0), last)

    def action_rename(self) -> None:
        if self._marked is not None:
            self._renaming = self._marked.id
            box = self.query_one(Input)
            box.add_class("-renaming")
            box.placeholder, box.value = RENAME, visible(self._marked.title)
            box.action_select_all()

    def action_delete(self) -> None:
        if self._marked is not None:
            gone, place = self._marked.id, self.query_one(OptionList).highlighted
            with self._saying_why():
                self._archive.history.delete(gone)
                self.notify("Deleted; Ctrl+Z brings it back", timeout=4)
            if gone == self._dialogue.id:
                self.post_message(self.Opened(None))
            self.refresh_list()
            self._mark(place)

    def action_undo(self) -> None:
        with self._saying_why():
            back = self._archive.history.undelete()
            if back is None:
                self.notify("There is nothing to bring back", timeout=3)
            self.refresh_list()
            self._mark(next((n for n, row in enumerate(self._listed) if row.id == back), None))

    def _mark(self, place: int | None) -> None:
        """The row there, or the last one if there are fewer."""
        if place is not None and self._listed:
            self.query_one(OptionList).highlighted = min(place, len(self._listed) - 1)

    def action_close(self) -> None:
        if self._renaming is not None:
            self._stop_renaming()
        else:
            self.post_message(self.Closed())

    def _stop_renaming(self) -> None:
        self._renaming = None
        box = self.query_one(Input)
        box.remove_class("-renaming")
        with self.prevent(Input.Changed):
            box.placeholder, box.value = SEARCH, self._words


def _words(listed: Listed, is_current: bool, now: float) -> Text:
    title = Text("● " if is_current else "  ", no_wrap=True, overflow="ellipsis")
    title.append(visible(listed.title).replace("\n", " ") or "without a name")
    return title.append(f"\n  {ago_words(now - listed.changed)}", style="dim")


def ago_words(seconds: float) -> str:
    """ "just now", "5 minutes ago", "3 days ago"."""
    for name, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        number = int(seconds // length)
        if number > 0:
            return f"{number:,} {name}{'' if number == 1 else 's'} ago"
    return "just now"
