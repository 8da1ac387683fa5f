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
    alternatives: tuple[EntryId, ...] = ()
    """All answers to the same question, oldest first, as far as they are known."""

    def beside(self, step: int) -> EntryId | None:
        """The answer so many places after this one, or before it; None if there is none."""
        place = self._place + step
        return self.alternatives[place] if 0 <= place < len(self.alternatives) else None

    @property
    def place_words(self) -> str:
        """ "2 of 3"; nothing for an answer that is the only one."""
        if len(self.alternatives) < 2:
            return ""
        return f"{self._place + 1} of {len(self.alternatives)}"

    @property
    def _place(self) -> int:
        return self.alternatives.index(self.id) if self.id in self.alternatives else 0


@dataclass(frozen=True, slots=True)
class Appended:
    conversation: ConversationId
    """Another one than it was for if that went on elsewhere in the meantime."""
    entry: EntryId


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
