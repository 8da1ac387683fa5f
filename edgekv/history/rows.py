"""What is written about conversations, inside a transaction that somebody else holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from edgekv.history.database import blob, text
from edgekv.history.entries import ConversationId, EntryId, Remark
from edgekv.history.records import columns_of, written


class Rows:
    """`writer` is whose answers grow in these rows, as `writers.own_mark` says it."""

    def __init__(self, writer: str, clock: Callable[[], float]) -> None:
        self._writer, self._clock = writer, clock

    def begin(
        self, connection: sqlite3.Connection, title: str, head: EntryId | None
    ) -> ConversationId:
        done = connection.execute(
            "INSERT INTO conversation (title, head, changed) VALUES (?, ?, ?)",
            (blob(title), head, self._clock()),
        )
        return ConversationId(done.lastrowid or 0)

    def end_at(
        self,
        connection: sqlite3.Connection,
        conversation: ConversationId,
        end: EntryId,
        before: EntryId | None,
    ) -> ConversationId:
        """End the conversation at `end`, or begin one that does if it ends elsewhere by now."""
        moved = connection.execute(
            "UPDATE conversation SET head = ?, changed = ?, deleted = NULL "
            "WHERE id = ? AND head IS ?",
            (end, self._clock(), conversation, before),
        )
        if moved.rowcount:
            return conversation
        return self.begin(connection, self._title(connection, conversation), end)

    def _title(self, connection: sqlite3.Connection, conversation: ConversationId) -> str:
        row = connection.execute(
            "SELECT title FROM conversation WHERE id = ?", (conversation,)
        ).fetchone()
        return text(row[0]) if row else ""

    def insert(
        self,
        connection: sqlite3.Connection,
        conversation: ConversationId,
        after: EntryId | None,
        remark: Remark,
    ) -> EntryId:
        done = connection.execute(
            "INSERT INTO message (conversation, parent, writer, created, model, ending, stats, "
            "role, content, thought, extra) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(conversation, after, self._writer, self._clock()),
                *(blob(remark.model), remark.ending, written(remark.stats)),
                *columns_of(remark.message),
            ),
        )
        return EntryId(done.lastrowid or 0)

    def finish(self, connection: sqlite3.Connection, entry: EntryId, remark: Remark) -> None:
        _, content, thought, extra = columns_of(remark.message)
        connection.execute(
            "UPDATE message SET content = ?, thought = ?, extra = ?, ending = ?, stats = ? "
            "WHERE id = ?",
            (content, thought, extra, remark.ending, written(remark.stats), entry),
        )
        connection.execute("DELETE FROM piece WHERE message = ?", (entry,))
        connection.execute(
            "UPDATE conversation SET changed = ? WHERE head = ?", (self._clock(), entry)
        )
