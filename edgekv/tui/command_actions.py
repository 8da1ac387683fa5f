"""Slash commands carried out on the chat screen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from edgekv.errors import Unavailable
from edgekv.tui.commands import parse
from edgekv.tui.conversation_actions import ConversationActions
from edgekv.tui.file_actions import FileActions
from edgekv.tui.file_paths import paths
from edgekv.tui.model_actions import ModelActions

if TYPE_CHECKING:
    from edgekv.tui.chat import ChatScreen

Action: TypeAlias = Callable[[str], Awaitable[None]]
"""Takes what follows the command. Raises the `EdgeKVError` of what cannot be done."""

NEEDS_QUIET = {"again", "delete", "drop", "edit", "fork", "model", "summary", "system", "undo"}
"""Commands that wait until no answer is under way."""
TAKES_A_FILE = {"attach", "import"}


class CommandActions:
    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen
        self._models = ModelActions(screen)
        self.actions: Mapping[str, Action] = {
            **ConversationActions(screen).actions(),
            **FileActions(screen).actions(),
            **self._models.actions(),
        }

    async def run(self, text: str) -> None:
        """Raises the `EdgeKVError` of a command that cannot be done."""
        typed = parse(text)
        name = typed.command.name
        if self._screen.talk.turn is not None and name in NEEDS_QUIET:
            raise Unavailable(f"'/{name}' has to wait for the answer; Esc stops that.")
        await self.actions[name](typed.argument)

    def arguments(self, name: str, begun: str) -> Sequence[str]:
        """What may follow the command of that name, where so much of it is typed."""
        return paths(begun) if name in TAKES_A_FILE else self._models.arguments(name)
