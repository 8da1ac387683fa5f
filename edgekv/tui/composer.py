"""Where the next message is written: the box, the files that go with it, and commands to choose."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import TextArea

from edgekv.errors import EdgeKVError
from edgekv.service.attachments import Attachment, read_attachment, with_attachments
from edgekv.tui.commands import Arguments, candidates
from edgekv.tui.completions import Completions
from edgekv.tui.line import Line
from edgekv.tui.prompt_input import PromptInput
from edgekv.tui.words import attachment_words

CheckRoom: TypeAlias = Callable[[Attachment], Awaitable[None]]
"""Raises `InvalidValue` for a file that the conversation has no room for."""


class Composer(Vertical):
    @dataclass
    class Refused(Message):
        """Something cannot go with the message."""

        why: str

    def __init__(self, check_room: CheckRoom, arguments: Arguments) -> None:
        super().__init__()
        self._check_room, self._arguments = check_room, arguments
        self._attachments: list[Attachment] = []

    def compose(self) -> ComposeResult:
        completions = Completions()
        yield completions
        yield Line("", classes="attached")
        yield PromptInput("prompt", completions)

    def on_mount(self) -> None:
        self._show_attachments()

    async def attach(self, path: str) -> Attachment:
        """Send this file with the next message. Raises `InvalidValue` where that cannot be."""
        attachment = read_attachment(path)
        await self._check_room(attachment)
        self._attachments.append(attachment)
        self._show_attachments()
        return attachment

    def detach(self) -> None:
        self._attachments.clear()
        self._show_attachments()

    def with_files(self, text: str) -> str:
        """The message to send; the files are gone from here then."""
        whole = with_attachments(self._attachments, text)
        self.detach()
        return whole

    @on(TextArea.Changed)
    def _complete(self) -> None:
        text = self.query_one(PromptInput).text
        self.query_one(Completions).offer(candidates(text, self._arguments))

    @on(PromptInput.Dropped)
    async def _take_file(self, message: PromptInput.Dropped) -> None:
        message.stop()
        try:
            await self.attach(message.path)
        except EdgeKVError as error:
            self.query_one(PromptInput).insert(message.text)
            self.post_message(self.Refused(str(error)))

    def _show_attachments(self) -> None:
        line = self.query_one(".attached", Line)
        line.display = bool(self._attachments)
        line.show(attachment_words(self._attachments))
