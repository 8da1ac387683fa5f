"""An answer while it is written, between the model and the history."""

from __future__ import annotations

import json
from collections.abc import Sequence

from edgekv.history.entries import Entry, EntryId
from edgekv.service.conversation import AnswerPart, AnswerStats
from edgekv.service.messages import Message, ToolCall
from edgekv.service.pieces import Called


class AnswerDraft:
    """Collects the parts of an answer, and those that are not in the history yet."""

    def __init__(self, replaced: tuple[Entry, ...], head: EntryId | None, started: float) -> None:
        """`replaced` and `head` are the conversation before, for an answer that is withdrawn."""
        self.replaced, self.head = replaced, head
        self.last_write = started
        self.stats = AnswerStats()
        self._said: list[str] = []
        self._thought: list[str] = []
        self._calls: list[Called] = []
        self._num_written = (0, 0)

    def add(self, part: AnswerPart) -> None:
        self.stats = part.stats
        self._calls += part.calls
        if part.text:
            self._said.append(part.text)
        if part.thought:
            self._thought.append(part.thought)

    def take_unwritten(self, now: float) -> tuple[str, str]:
        """What was said and thought since this was last asked for."""
        num_said, num_thought = self._num_written
        self._num_written = len(self._said), len(self._thought)
        self.last_write = now
        return "".join(self._said[num_said:]), "".join(self._thought[num_thought:])

    def rest_on(self, entries: tuple[Entry, ...]) -> None:
        """The conversation was written anew up to here, and of the answer nothing."""
        self.replaced, self.head = entries, entries[-1].id
        self._num_written = (0, 0)

    @property
    def is_empty(self) -> bool:
        return not (self._said or self._thought or self._calls)

    @property
    def message(self) -> Message:
        """The answer so far."""
        return Message(
            "assistant",
            "".join(self._said),
            tool_calls=tool_calls(self._calls),
            thought="".join(self._thought),
        )


def tool_calls(calls: Sequence[Called]) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(f"call_{number}", call.name, json.loads(call.arguments))
        for number, call in enumerate(calls)
    )
