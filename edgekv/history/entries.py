"""What the history holds, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from edgekv.service.conversation import AnswerStats, Conversation
from edgekv.service.messages import Message

EntryId = NewType("EntryId", int)
ConversationId = NewType("ConversationId", int)


class Ending(StrEnum):
    """How a message came to its end."""

    WHOLE = "whole"
    """It is as its author wanted it, or as long as the context length allows."""
    STOPPED = "stopped"
    """The user stopped the answer."""
    BROKEN_OFF = "broken off"
    """The answer failed, or the program ended while it was written."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One message with its exact text, and how it came about."""

    message: Message
    model: str = ""
    """Who answered; nothing for messages of the user."""
    ending: Ending | None = Ending.WHOLE
    """None while the answer is being written."""
    stats: AnswerStats | None = None
    """An answer's figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Remark):
    """A remark that is in the history."""

    id: EntryId
    created: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A conversation as a list shows it."""

    id: ConversationId
    title: str
    changed: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A conversation with what was said in it, oldest first."""

    id: ConversationId
    title: str
    entries: tuple[Entry, ...] = ()

    @property
    def head(self) -> EntryId | None:
        """Where it goes on; None while nothing was said."""
        return self.entries[-1].id if self.entries else None

    @property
    def conversation(self) -> Conversation:
        return Conversation(tuple(entry.message for entry in self.entries))
