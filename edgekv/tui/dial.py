"""A value that is turned with the arrow keys, the mouse or its wheel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Static

from edgekv.tui.keys import DIAL_KEYS

LABEL_WIDTH = 12
EARLIER, LATER = "<", ">"


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of a dial. `words` are all the user sees of it."""

    words: str
    value: int | str | None
    """None is `auto`: the plan decides."""


AUTO = Setting("auto", None)


class Dial(Static, can_focus=True):
    """Posts `Turned`. What the plan decided for `auto` is shown beside it in `planned`."""

    BINDINGS: ClassVar[list[BindingType]] = DIAL_KEYS

    place: reactive[int] = reactive(0)
    planned: reactive[str] = reactive("")

    @dataclass
    class Turned(Message):
        """The user wants another value."""

        dial: Dial

    def __init__(self, name: str, label: str, settings: tuple[Setting, ...]) -> None:
        """The first of `settings` is shown until the dial is turned or set."""
        super().__init__(name=name)
        self._label, self._settings = label, settings

    @property
    def setting(self) -> Setting:
        return self._settings[self.place]

    def show(self, value: int | str | None) -> None:
        """Turn to a value without telling anybody; one that the dial lacks is put in its place."""
        values = [setting.value for setting in self._settings]
        if value not in values:
            assert value is not None, "every dial has 'auto'"
            words = f"{value:,}" if isinstance(value, int) else value
            self._settings = _with(self._settings, Setting(words, value))
            values = [setting.value for setting in self._settings]
        self.place = values.index(value)
        self.refresh()

    def render(self) -> Content:
        setting = self.setting
        words = setting.words
        if setting.value is None and self.planned:
            words += f": {self.planned}"
        at_start, at_end = self.place == 0, self.place == len(self._settings) - 1
        return Content.assemble(
            (f"{self._label:<{LABEL_WIDTH}}", ""),
            (f"{EARLIER} ", "$line" if at_start else "$primary"),
            (words, "bold"),
            (f" {LATER}", "$line" if at_end else "$primary"),
        )

    def action_turn(self, steps: int) -> None:
        place = min(max(0, self.place + steps), len(self._settings) - 1)
        if place != self.place:
            self.place = place
            self.post_message(self.Turned(self))

    def action_auto(self) -> None:
        self.action_turn(-len(self._settings))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.action_turn(1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.action_turn(-1)

    def on_click(self, event: events.Click) -> None:
        """On the arrows, or beside the words towards one of them."""
        self.focus()
        earlier = LABEL_WIDTH + self.gutter.left
        words_end = earlier + len(self.render().plain) - LABEL_WIDTH - 2
        if event.x <= earlier + 1:
            self.action_turn(-1)
        elif event.x >= words_end:
            self.action_turn(1)


def _with(settings: tuple[Setting, ...], new: Setting) -> tuple[Setting, ...]:
    """Numbers stay in their order; a word goes to the end."""
    if not isinstance(new.value, int):
        return (*settings, new)
    before = [s for s in settings if not isinstance(s.value, int) or s.value < new.value]
    after = [s for s in settings if isinstance(s.value, int) and s.value > new.value]
    return (*before, new, *after)
