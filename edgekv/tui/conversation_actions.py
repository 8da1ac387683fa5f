"""Commands that make something of the conversation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from edgekv.errors import InvalidValue
from edgekv.tui.commands import COMMANDS
from edgekv.tui.markdown import code_in

if TYPE_CHECKING:
    from edgekv.tui.chat import ChatScreen

CLEAR = "clear"


class ConversationActions:
    def __init__(self, screen: ChatScreen) -> None:
        self._screen, self._talk, self._dialogue = screen, screen.talk, screen.dialogue

    def actions(self) -> dict[str, Callable[[str], Awaitable[None]]]:
        """By the names of their commands."""
        return {
            "again": self.again,
            "copy": self.copy,
            "delete": self.delete,
            "drop": self.drop,
            "edit": self.edit,
            "fork": self.fork,
            "help": self.help,
            "list": self.list,
            "new": self.new,
            "quit": self.quit,
            "rename": self.rename,
            "save": self.save,
            "summary": self.summary,
            "system": self.system,
            "undo": self.undo,
        }

    async def again(self, _: str) -> None:
        self._need_something_said()
        await self._talk.ask_again()

    async def copy(self, argument: str) -> None:
        answer = self._dialogue.last_answer
        if answer is None:
            raise InvalidValue("message", "There is no answer to copy yet.")
        if argument:
            code = code_in(answer)
            number = _count(argument)
            if number > len(code):
                raise InvalidValue("message", f"The last answer has {len(code)} pieces of code.")
            answer = code[number - 1]
        self._screen.app.copy_to_clipboard(answer)
        self._screen.notify("Copied it", timeout=2)

    async def delete(self, _: str) -> None:
        if self._dialogue.id is None:
            raise InvalidValue("message", "There is nothing to delete: nothing was said yet.")
        self._screen.archive.history.delete(self._dialogue.id)
        await self._talk.start_over()
        await self._tell("The conversation is deleted; /undo brings it back for a day.")

    async def drop(self, argument: str) -> None:
        turns = [n for n, e in enumerate(self._dialogue.entries) if e.message.role == "user"]
        if len(turns) < 2:
            raise InvalidValue("message", "There is but one turn, which cannot be left out.")
        number = _count(argument) if argument else len(turns) // 2
        if number >= len(turns):
            raise InvalidValue(
                "message", f"There are {len(turns)} turns and the last one has to stay."
            )
        await self._leave_out(turns[number])
        await self._tell(
            f"This conversation goes on without the oldest {number:,} turns, so that there is "
            "room; the whole one is in the list (Ctrl+L)."
        )

    async def edit(self, _: str) -> None:
        self._need_something_said()
        await self._talk.edit(len(self._dialogue.entries) - 1)

    async def fork(self, _: str) -> None:
        self._need_something_said()
        await self._talk.fork(len(self._dialogue.entries) - 1)

    async def help(self, _: str) -> None:
        width = max(len(f"/{c.name} {c.argument}") for c in COMMANDS)
        rows = (f"{f'/{c.name} {c.argument}':{width}}  {c.purpose}" for c in COMMANDS)
        await self._tell("\n".join([*rows, "", "F1 shows what every key does."]))

    async def list(self, _: str) -> None:
        self._screen.action_toggle_list()

    async def new(self, _: str) -> None:
        await self._talk.start_over(self._dialogue.system)

    async def quit(self, _: str) -> None:
        self._screen.app.exit()

    async def rename(self, argument: str) -> None:
        self._need_something_said()
        self._dialogue.rename(argument)
        self._talk.post_message(self._talk.Changed())
        await self._tell(f"This conversation is now called “{argument}”.")

    async def save(self, argument: str) -> None:
        if argument:
            self._need_something_said()
            self._dialogue.rename(argument)
            self._talk.post_message(self._talk.Changed())
        archive = self._screen.archive
        if not archive.is_saved:
            reason = archive.problem or "Nothing is saved in this session."
            raise InvalidValue("message", f"{reason} /export writes this conversation to a file.")
        name = f"“{self._dialogue.title}” is" if self._dialogue.id else "Conversations are"
        await self._tell(f"{name} saved as it grows, in {archive.history.path}.")

    async def summary(self, _: str) -> None:
        self._need_something_said()
        await self._talk.summarise()

    async def system(self, argument: str) -> None:
        if argument:
            self._dialogue.set_system("" if argument == CLEAR else argument)
            await self._show_anew()
        told = self._dialogue.system
        await self._tell(
            f"Before all else, the model is told: {told}" if told else "The model is told nothing."
        )

    async def undo(self, _: str) -> None:
        conversation = self._screen.archive.history.undelete()
        if conversation is None:
            raise InvalidValue("message", "There is no deleted conversation to bring back.")
        await self._talk.open(conversation)

    async def _leave_out(self, position: int) -> None:
        """Go on in a new conversation without what was said before that message."""
        entries = self._dialogue.entries
        told = [entry for entry in entries[:1] if entry.message.role == "system"]
        self._dialogue.start_from([*told, *entries[position:]], self._dialogue.title)
        await self._show_anew()

    async def _show_anew(self) -> None:
        await self._talk.show()
        await self._talk.count()

    def _need_something_said(self) -> None:
        if not self._dialogue.entries:
            raise InvalidValue("message", "Nothing was said yet.")

    async def _tell(self, text: str) -> None:
        await self._talk.transcript.reply(text)


def _count(argument: str) -> int:
    if not argument.isdecimal() or not int(argument):
        raise InvalidValue("message", f"'{argument}' is no number of 1 or more.")
    return int(argument)
