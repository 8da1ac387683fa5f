"""Commands that read and write files."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from edgekv.errors import InvalidValue
from edgekv.history.export import to_json, to_markdown
from edgekv.history.imports import MOST_BYTES, Imported, read_conversations
from edgekv.tui.composer import Composer
from edgekv.tui.visible import typeable

if TYPE_CHECKING:
    from edgekv.tui.chat import ChatScreen

LONGEST_NAME = 40


class FileActions:
    def __init__(self, screen: ChatScreen) -> None:
        self._screen, self._talk, self._dialogue = screen, screen.talk, screen.dialogue

    def actions(self) -> dict[str, Callable[[str], Awaitable[None]]]:
        """By the names of their commands."""
        return {
            "attach": self.attach,
            "detach": self.detach,
            "export": self.export,
            "import": self.take_in,
        }

    async def attach(self, argument: str) -> None:
        await self._screen.query_one(Composer).attach(argument)

    async def detach(self, _: str) -> None:
        self._screen.query_one(Composer).detach()

    async def export(self, argument: str) -> None:
        dialogue = self._dialogue
        if not dialogue.entries:
            raise InvalidValue("message", "Nothing was said yet.")
        path = Path(argument or f"{_file_name(dialogue.title)}.md").expanduser()
        if path.suffix == ".json":
            text = to_json([(dialogue.title, dialogue.entries)])
        elif path.suffix == ".md":
            # For people, who may look at it in a terminal; the JSON is exact.
            text = typeable(to_markdown(dialogue.title, dialogue.entries))
        else:
            raise InvalidValue("file", f"'{path}' should end in .md or .json.")
        _write_new(path, text)
        await self._tell(f"Wrote {path.absolute()}.")

    async def take_in(self, argument: str) -> None:
        conversations = await asyncio.to_thread(_read_export, Path(argument).expanduser())
        for conversation in conversations:
            self._screen.archive.history.take_in(conversation)
            await asyncio.sleep(0)  # keys work on while there are thousands
        self._talk.post_message(self._talk.Changed())
        what = "1 conversation" if len(conversations) == 1 else f"{len(conversations):,} of them"
        await self._tell(f"Imported {what}; Ctrl+L lists all.")

    async def _tell(self, text: str) -> None:
        await self._talk.transcript.reply(text)


def _write_new(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8", newline="") as stream:
            stream.write(text)
    except FileExistsError:
        raise InvalidValue("file", f"'{path}' exists already; give another name.") from None
    except OSError as error:
        raise InvalidValue("file", f"'{path}' cannot be written: {error.strerror}.") from None


def _read_export(path: Path) -> tuple[Imported, ...]:
    try:
        with path.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidValue("file", f"'{path}' cannot be read: {error.strerror}.") from None
    return read_conversations(content, path.name)


def _file_name(title: str) -> str:
    """A name that every file system takes."""
    words = re.sub(r"[^\w-]+", "-", title).strip("-")[:LONGEST_NAME].strip("-")
    return words or "conversation"
