"""Messages as rows of the history's tables, and back."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from edgekv.history.database import blob, text
from edgekv.history.entries import Ending, Entry, EntryId
from edgekv.service.conversation import AnswerStats
from edgekv.service.messages import Message

_IN_COLUMNS = {"role", "content", "thought"}

MESSAGE_COLUMNS = "message.id, role, content, thought, extra, created, model, ending, stats"
"""What `entry_of` reads."""


def entry_of(row: tuple[Any, ...]) -> Entry:
    number, role, content, thought, extra, created, model, ending, stats = row
    parts = {"role": role, "content": text(content), "thought": text(thought)}
    return Entry(
        id=EntryId(number),
        message=msgspec.convert(parts | json.loads(extra), Message),
        created=created,
        model=text(model),
        ending=Ending(ending) if ending else None,
        stats=stats_of(stats) if stats else None,
    )


def columns_of(message: Message) -> tuple[str, bytes, bytes, bytes]:
    """Role, content, thought, and the rest as JSON."""
    fields = msgspec.to_builtins(message)
    # The standard library writes lone surrogates as escapes, where msgspec refuses them.
    rest = json.dumps({name: value for name, value in fields.items() if name not in _IN_COLUMNS})
    return message.role, blob(message.content), blob(message.thought), rest.encode()


def stats_of(written: bytes) -> AnswerStats:
    return msgspec.json.decode(written, type=AnswerStats)


def written(stats: AnswerStats | None) -> bytes | None:
    return None if stats is None else msgspec.json.encode(stats)
