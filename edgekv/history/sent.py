"""What was sent, so that the arrow keys find it again after a restart."""

from __future__ import annotations

import sqlite3

from edgekv.history.database import Database, blob, text
from edgekv.history.entries import ConversationId

MOST_SENT = 500


class SentTexts:
    """The last few texts that were sent. Those of a conversation go with it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, sent: str, conversation: ConversationId | None) -> None:
        with self._database.writing() as connection:
            connection.execute(
                "INSERT INTO sent (conversation, text) VALUES (?, ?)", (conversation, blob(sent))
            )
            connection.execute(
                "DELETE FROM sent WHERE id <= (SELECT max(id) FROM sent) - ?", (MOST_SENT,)
            )

    def all(self) -> list[str]:
        """Oldest first."""
        return [text(row[0]) for row in self._database.rows("SELECT text FROM sent ORDER BY id")]

    def purge(self, connection: sqlite3.Connection) -> None:
        connection.execute(
            "DELETE FROM sent WHERE conversation NOT IN (SELECT id FROM conversation)"
        )
