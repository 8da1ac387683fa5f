"""The tables of the history, and how those of older versions become them.

A message has a parent, so all conversations together are a forest and a conversation is the path
to its `head`: one that was forked from another shares rows with it, as it shares cells.

    system ── question ── answer ── question ── answer     ◀ head of the first conversation
                            └────── question ── answer     ◀ head of its fork

An answer grows in `piece`, one row for each moment, and becomes a text of its message when it is
over: appending to a long text would write all of it again each time.

Texts are UTF-8 in BLOBs, with lone surrogates as three bytes: what was typed or imported is kept
to the last character, and NUL is a character like any other.
"""

from __future__ import annotations

import sqlite3

from edgekv.errors import Unavailable

MIGRATIONS = (
    """
    CREATE TABLE conversation (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title BLOB NOT NULL,
        head INTEGER REFERENCES message (id),
        changed REAL NOT NULL,
        deleted REAL
    );
    CREATE TABLE message (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation INTEGER NOT NULL,
        parent INTEGER REFERENCES message (id),
        role TEXT NOT NULL,
        content BLOB NOT NULL,
        thought BLOB NOT NULL,
        extra BLOB NOT NULL,
        created REAL NOT NULL,
        model BLOB NOT NULL,
        ending TEXT,
        stats BLOB,
        writer TEXT NOT NULL
    );
    CREATE TABLE piece (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        message INTEGER NOT NULL REFERENCES message (id) ON DELETE CASCADE,
        content BLOB NOT NULL,
        thought BLOB NOT NULL,
        stats BLOB NOT NULL
    );
    CREATE TABLE sent (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation INTEGER,
        text BLOB NOT NULL
    );
    CREATE INDEX message_of_conversation ON message (conversation);
    CREATE INDEX message_of_parent ON message (parent);
    CREATE INDEX piece_of_message ON piece (message);
    CREATE INDEX message_growing ON message (ending) WHERE ending IS NULL;
    CREATE INDEX conversation_changed ON conversation (changed);
    """,
)
"""Each brings a file from the version that is its place in here to the next."""

VERSION = len(MIGRATIONS)


def prepare(connection: sqlite3.Connection) -> None:
    """Bring a file to this version. Others may try at the same time: one does it, all see it done.

    Raises `Unavailable` for a file of a newer EdgeKV, which is left as it is.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise Unavailable(
                f"The saved conversations are of a newer EdgeKV (format {version}, this one "
                f"reads up to {VERSION}); update EdgeKV to see them."
            )
        for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
            for statement in filter(str.strip, script.split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
