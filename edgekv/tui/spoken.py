"""What one side said: can be gone to with the keyboard, and be gone on from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message

from edgekv.tui.keys import SPOKEN_KEYS


class Spoken(Vertical, can_focus=True):
    """`position` is its place in the conversation, the first message's being 0."""

    # A click is for selecting text; typing must go on in the message box.
    FOCUS_ON_CLICK = False
    BINDINGS: ClassVar[list[BindingType]] = SPOKEN_KEYS

    @dataclass
    class Chosen(Message):
        """The user wants something done with what was said here."""

        spoken: Spoken

    class ForkChosen(Chosen):
        """Go on from here in a new conversation."""

    class EditChosen(Chosen):
        """Say it again in other words."""

    class AgainChosen(Chosen):
        """Answer this once more."""

    @dataclass
    class OtherChosen(Chosen):
        """Show the answer so many places beside this one."""

        step: int

    class CopyChosen(Chosen):
        """Copy the exact text."""

    class LeaveChosen(Chosen):
        """Go back to the message box."""

    def __init__(self, position: int, classes: str = "") -> None:
        super().__init__(classes=classes)
        self.position = position

    def toggle(self) -> None:
        """Show what is folded, or fold it again."""

    def code(self) -> tuple[str, ...]:
        """The pieces of code in it, exactly."""
        return ()

    def action_unfold(self) -> None:
        self.toggle()

    def action_fork(self) -> None:
        self.post_message(self.ForkChosen(self))

    def action_edit(self) -> None:
        self.post_message(self.EditChosen(self))

    def action_again(self) -> None:
        self.post_message(self.AgainChosen(self))

    def action_other(self, step: int) -> None:
        self.post_message(self.OtherChosen(self, step))

    def action_copy(self) -> None:
        self.post_message(self.CopyChosen(self))

    def action_copy_code(self) -> None:
        code = self.code()
        if code:
            self.app.copy_to_clipboard(code[-1])
            self.notify("Copied the last piece of code", timeout=2)

    def action_leave(self) -> None:
        self.post_message(self.LeaveChosen(self))
