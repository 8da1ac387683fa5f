"""The chat app on a scripted worker, driven by keys and read as text."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rich.color import Color
from textual import events
from textual.pilot import Pilot

from edgekv.errors import EdgeKVError
from edgekv.history.archive import Archive
from edgekv.service.conversation import ChatModel
from edgekv.tui.app import ChatApp
from edgekv.tui.chat import ChatScreen, OpenModel
from edgekv.tui.prompt_input import PromptInput
from tests.tui.fakes import PlainFormat, ScriptedWorker

DEADLINE_SECONDS = 120.0
"""For anything: far more than a busy machine needs, and what never comes still ends the test."""


@dataclass(frozen=True)
class OpenChat:
    app: ChatApp
    pilot: Pilot[EdgeKVError]
    worker: ScriptedWorker

    @property
    def screen(self) -> ChatScreen:
        return self.app.chat

    @property
    def prompt(self) -> PromptInput:
        return self.screen.query_one(PromptInput)

    def text(self) -> str:
        """What the screen shows, line by line."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    def colour_of(self, words: str) -> Color | None:
        """The colour of the first piece of text on the screen that holds `words`."""
        for strip in self.app.screen._compositor.render_strips():
            for segment in strip:
                if words in segment.text:
                    return segment.style.color if segment.style else None
        raise AssertionError(f"the screen does not show {words!r}")

    async def until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + DEADLINE_SECONDS
        while not holds():
            if time.monotonic() > end:
                raise AssertionError(f"it never came to be; the screen shows:\n{self.text()}")
            await self.pilot.pause()

    async def shows(self, words: str) -> None:
        await self.until(lambda: words in self.text())

    async def is_idle(self) -> None:
        await self.until(lambda: self.screen.talk.turn is None)
        await self.pilot.pause()

    async def paste(self, text: str) -> None:
        self.prompt.post_message(events.Paste(text))
        await self.pilot.pause()

    async def send(self, text: str) -> None:
        await self.paste(text)
        await self.pilot.press("enter")

    async def ask(self, text: str) -> None:
        """Send a message and wait until it is answered."""
        await self.send(text)
        await self.is_idle()


@asynccontextmanager
async def open_chat(
    worker: ScriptedWorker,
    size: tuple[int, int] = (80, 24),
    model_name: str = "model",
    archive: Archive | None = None,
    open_model: OpenModel | None = None,
) -> AsyncIterator[OpenChat]:
    model = ChatModel(worker, PlainFormat)
    app = ChatApp(model, model_name, archive=archive, open_model=open_model)
    async with app.run_test(size=size) as pilot:
        yield OpenChat(app, pilot, worker)
