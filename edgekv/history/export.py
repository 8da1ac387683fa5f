"""Conversations as files for other programs and for people.

JSON keeps every character and every figure, and `imports.py` reads it again. It is ASCII: nothing
in it can drive a terminal that shows it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from edgekv.history.entries import Entry, Remark

FORMAT, VERSION = "edgekv-conversations", 1

_SPEAKERS = {"user": "You", "system": "System", "tool": "Tool"}


def to_json(conversations: Iterable[tuple[str, Sequence[Entry]]]) -> str:
    """Titles and what was said, oldest first."""
    written = [
        {"title": title, "messages": [_as_json(entry) for entry in entries]}
        for title, entries in conversations
    ]
    document = {"format": FORMAT, "version": VERSION, "conversations": written}
    return json.dumps(document, indent=1) + "\n"


def to_markdown(title: str, entries: Sequence[Entry]) -> str:
    """One conversation to be read: each message below who said it."""
    parts = [f"# {title or 'Conversation'}", *map(_as_markdown, entries)]
    return "\n\n".join(parts) + "\n"


def _as_json(entry: Entry) -> dict[str, Any]:
    fields: dict[str, Any] = {**msgspec.to_builtins(entry.message), "created": entry.created}
    if entry.model:
        fields["model"] = entry.model
    if entry.ending is not None:
        fields["ending"] = entry.ending.value
    if entry.stats is not None:
        fields["stats"] = msgspec.to_builtins(entry.stats)
    return {name: value for name, value in fields.items() if value not in ("", [], None)}


def _as_markdown(entry: Entry) -> str:
    message = entry.message
    when = datetime.fromtimestamp(entry.created, UTC).strftime("%Y-%m-%d %H:%M UTC")
    parts = [f"## {_speaker(entry)} · {when}"]
    if message.thought:
        parts.append("\n".join(f"> {line}" for line in message.thought.strip().splitlines()))
    if message.content:
        parts.append(message.content)
    for call in message.tool_calls:
        parts.append(f"```json\n{call.name}({json.dumps(call.arguments, ensure_ascii=False)})\n```")
    return "\n\n".join(parts)


def _speaker(entry: Remark) -> str:
    return _SPEAKERS.get(entry.message.role) or entry.model or "Assistant"
