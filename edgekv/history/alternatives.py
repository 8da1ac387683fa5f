"""Several answers to one question: which there are, and where the conversation ends with each.

    question ─┬─ answer 1 ── question ── answer
              ├─ answer 2
              └─ answer 3 ── question ── answer     ◀ head: answer 3 of 3 is open

Those of a conversation are its own and those of the conversation that it was forked from.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace

from edgekv.history.database import Database
from edgekv.history.entries import ConversationId, Entry, EntryId

_BESIDE = """
    SELECT shown.id, other.id
    FROM message AS shown
    JOIN message AS question ON question.id = shown.parent
    JOIN message AS other ON other.parent = question.id
    WHERE shown.id IN (SELECT value FROM json_each(?1))
        AND shown.role = 'assistant' AND other.role = 'assistant'
        AND other.ending IS NOT NULL AND other.conversation IN (?2, question.conversation)
    ORDER BY other.id
"""
_END = """
    WITH RECURSIVE below (id) AS (
        SELECT ?1
        UNION ALL
        SELECT (SELECT max(message.id) FROM message
                WHERE message.parent = below.id AND message.conversation = ?2)
        FROM below WHERE below.id IS NOT NULL
    )
    SELECT max(id) FROM below
"""
"""What was said later has a larger number."""


class Alternatives:
    def __init__(self, database: Database) -> None:
        self._database = database

    def told(self, conversation: ConversationId, entries: Sequence[Entry]) -> tuple[Entry, ...]:
        """The entries, each told which answers there are to its question. Raises `NotSaved`."""
        numbers = json.dumps([entry.id for entry in entries])
        beside: dict[int, list[EntryId]] = {}
        for shown, other in self._database.rows(_BESIDE, numbers, conversation):
            beside.setdefault(shown, []).append(EntryId(other))
        return tuple(replace(e, alternatives=tuple(beside.get(e.id, ()))) for e in entries)

    def end_behind(
        self, connection: sqlite3.Connection, conversation: ConversationId, entry: EntryId
    ) -> EntryId:
        """Where the conversation ended when this entry was last a part of it."""
        (end,) = connection.execute(_END, (entry, conversation)).fetchone()
        return EntryId(end)
