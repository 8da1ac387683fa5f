"""The terminal app: themes, keys that work everywhere, and an orderly end."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from textual import events, on
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.screen import Screen

from edgekv.config.spelling import nearest
from edgekv.errors import EdgeKVError, SettingsError
from edgekv.history.archive import Archive
from edgekv.service.conversation import ChatModel
from edgekv.service.host import ModelHost
from edgekv.service.model_supply import ModelSupply
from edgekv.tui.chat import ChatScreen, OpenModel
from edgekv.tui.engine_screen import EngineScreen
from edgekv.tui.help_screen import HelpScreen
from edgekv.tui.keymap import keymap_of
from edgekv.tui.keys import APP_KEYS
from edgekv.tui.models_screen import ModelsScreen
from edgekv.tui.plan_screen import PlanScreen
from edgekv.tui.prompt_input import PromptInput
from edgekv.tui.theme import (
    DARK,
    OWN_THEMES,
    TERMINAL_DARK,
    extra_variables,
)

SECONDS_TO_EXIT = 5.0
"""After a hang-up: how long the terminal may keep us, since writing to a dead one can block."""


class ChatApp(App[EdgeKVError], inherit_bindings=False):
    """Returns the error that kept the model from starting, if there was one."""

    TITLE = "EdgeKV"
    CSS_PATH = ["edgekv.tcss", "screens.tcss"]  # noqa: RUF012 - so does this
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - Textual declares both without ClassVar
        (0, "-too-narrow"),
        (40, "-narrow"),
        (78, "-normal"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-too-low"),
        (10, "-low"),
        (16, "-tall"),
        (32, "-high"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = APP_KEYS

    def __init__(
        self,
        model: ChatModel,
        model_name: str,
        theme: str | None = None,
        keys: Mapping[str, Sequence[str]] = MappingProxyType({}),
        archive: Archive | None = None,
        open_model: OpenModel | None = None,
    ) -> None:
        """`theme` and `keys` are the settings'. Raises `SettingsError` for unknown ones.

        Without an `archive` nothing is saved; without `open_model` no other model is opened.
        """
        # Sixteen colours cannot be mixed, and no colour at all means the terminal's own two.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self.chat = ChatScreen(model, model_name, archive or Archive(None), open_model)
        self._views: dict[str, Callable[[], Screen[None]]] = {
            "engine": lambda: EngineScreen(self._host),
            "models": lambda: ModelsScreen(self._supply, self._open_file),
            "plan": lambda: PlanScreen(self._host),
            "help": lambda: HelpScreen(keys),
        }
        self._view: str | None = None
        self._early: list[events.Event] | None = []
        """What was typed before the message box was there; None once it is."""
        self._supply = ModelSupply()
        self.set_keymap(keymap_of(keys))
        for own in OWN_THEMES:
            self.register_theme(own)
        self.theme = self._usable_theme(theme)

    def _usable_theme(self, wanted: str | None) -> str:
        """The theme in the settings, unless the terminal has not the colours for it."""
        if wanted is not None and wanted not in self.available_themes:
            hint = nearest(wanted, self.available_themes)
            raise SettingsError(f"The settings name a theme '{wanted}' that is not known; {hint}")
        if self.no_color or self.console.color_system == "standard":
            return TERMINAL_DARK
        return wanted or DARK.name

    def _open_file(self, path: Path) -> None:
        """As if the user had asked for it in the conversation."""
        self.action_view("chat")
        self.chat.post_message(PromptInput.Sent(f"/model {path}"))

    def _host(self) -> ModelHost:
        return self.chat.model.worker

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return extra_variables(self.current_theme)

    def get_default_screen(self) -> Screen[None]:
        return self.chat

    def on_mount(self) -> None:
        self._end_on(signal.SIGTERM, signal.SIGINT)
        if hasattr(signal, "SIGHUP"):
            self._end_on(signal.SIGHUP)

    async def on_event(self, event: events.Event) -> None:
        """As Textual does, which drops what nobody has the focus for yet."""
        if self._early is not None and isinstance(event, events.Key | events.Paste):
            self._early.append(event)
        else:
            await super().on_event(event)

    @on(ChatScreen.Listening)
    async def _take_early(self) -> None:
        """The message box has the focus: give it what was typed until now."""
        early, self._early = self._early or [], None
        for event in early:
            # Until its screen was there, the terminal made Enter the end of a line.
            is_enter = isinstance(event, events.Key) and event.key == "ctrl+j"
            await super().on_event(events.Key("enter", "\r") if is_enter else event)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        chat = self.chat
        commands = (
            ("New conversation", "This one is in the list", "new", chat.action_new),
            ("Conversations", "Find, open, rename, delete", "", chat.action_toggle_list),
            ("Ask again", "The last answer stays beside it", "regenerate", chat.action_regenerate),
            ("Copy the last answer", "Its exact text", "copy", chat.action_copy),
            ("Engine", "Cells, slots and how it flows", "", partial(self.action_view, "engine")),
            ("Models", "What fits and is here", "", partial(self.action_view, "models")),
            ("Memory plan", "See it and try others", "", partial(self.action_view, "plan")),
            ("Theme", "Other colours", "", self.action_change_theme),
            ("Keys", "What every key does", "", partial(self.action_view, "help")),
            ("Quit", "Leave at once", "", self.exit),
        )
        for title, help_text, action, callback in commands:
            if chat.check_action(action, ()):
                yield SystemCommand(title, help_text, callback)

    def action_interrupt(self) -> None:
        prompt = self.chat.query_one(PromptInput)
        selected = self.screen.get_selected_text() or prompt.selected_text
        if selected:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
            prompt.move_cursor(prompt.cursor_location)
        elif self.chat.talk.turn is not None:
            self.chat.action_stop()
        else:
            self.exit()

    def action_view(self, name: str) -> None:
        """Show one of the screens over the conversation; its own key leads back."""
        shown, self._view = self._view, None
        while len(self.screen_stack) > 1:
            self.pop_screen()
        if name != shown and name in self._views:
            self._view = name
            self.push_screen(self._views[name]())

    def _end_on(self, *signals: signal.Signals) -> None:
        """Leave the terminal as it was found when another program ends this one."""
        loop = asyncio.get_running_loop()
        for number in signals:
            with suppress(NotImplementedError):  # Windows loops take no handlers
                loop.add_signal_handler(number, self._end, 128 + number)

    def _end(self, exit_code: int) -> None:
        last_resort = threading.Timer(SECONDS_TO_EXIT, os._exit, (exit_code,))
        last_resort.daemon = True
        last_resort.start()
        self.chat.talk.break_off()
        self.exit(return_code=exit_code)
