"""Conversations in a file, as they grow.

history = History(default_path())
conversation = history.begin("Title")
question = history.append(conversation, None, Remark(Message("user", "Why?")))
answer = history.append(conversation, question.entry, Remark(Message("assistant"), ending=None))
history.grow(answer.entry, "Because", "", stats)
history.finish(answer.entry, Remark(Message("assistant", "Because."), stats=stats))
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from edgekv.config.places import data_folder
from edgekv.history.alternatives import Alternatives
from edgekv.history.database import Database, blob, text
from edgekv.history.entries import (
    Appended,
    ConversationId,
    Ending,
    Entry,
    EntryId,
    Listed,
    Opened,
    Remark,
)
from edgekv.history.imports import Imported
from edgekv.history.records import MESSAGE_COLUMNS, entry_of, stats_of, written
from edgekv.history.rows import Rows
from edgekv.history.sent import SentTexts
from edgekv.history.writers import own_mark, still_runs
from edgekv.service.conversation import AnswerStats

SECONDS_TO_UNDO = 24 * 3600.0
"""How long a deleted conversation can be brought back."""
MOST_LISTED = 500

_PATH = f"""
    WITH RECURSIVE path (id, depth) AS (
        SELECT head, 0 FROM conversation WHERE id = ?
        UNION ALL
        SELECT message.parent, depth + 1 FROM message JOIN path USING (id)
        WHERE message.parent IS NOT NULL
    )
    SELECT {MESSAGE_COLUMNS} FROM path JOIN message USING (id) ORDER BY depth DESC
"""
_NEEDED = """
    WITH RECURSIVE needed (id) AS (
        SELECT head FROM conversation WHERE head IS NOT NULL
        UNION
        SELECT id FROM message WHERE conversation IN (SELECT id FROM conversation)
        UNION
        SELECT message.parent FROM message JOIN needed USING (id)
        WHERE message.parent IS NOT NULL
    )
    SELECT id FROM needed
"""
"""Messages of the conversations that are there, and what comes before them in others."""


def default_path() -> Path | None:
    """None for a user without a folder for it: then nothing outlives the program."""
    folder = data_folder()
    return None if folder is None else folder / "conversations.sqlite"


class History:
    """Every method raises `NotSaved` if the file cannot be read or written."""

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.time) -> None:
        """`path` of None: nothing outlives the program. Raises as `Database` does."""
        self._database = Database(path)
        self.sent, self.answers = SentTexts(self._database), Alternatives(self._database)
        self._clock, self._rows = clock, Rows(own_mark(), clock)
        self.path = path

    def close(self) -> None:
        """Safe to call twice."""
        self._database.close()

    # --- conversations ---

    def begin(self, title: str, at: EntryId | None = None) -> ConversationId:
        """A new conversation. With `at` it is a fork: everything up to there, nothing copied."""
        with self._database.writing() as connection:
            return self._rows.begin(connection, title, at)

    def listed(self, words: str = "") -> tuple[Listed, ...]:
        """Those with these words in their title or text, the last changed first."""
        rows = self._database.rows(
            """
            SELECT id, title, changed FROM conversation
            WHERE deleted IS NULL AND head IS NOT NULL AND (
                ?1 = '' OR contains(title, ?1) OR EXISTS (
                    SELECT 1 FROM message
                    WHERE message.conversation = conversation.id AND contains(content, ?1)))
            ORDER BY changed DESC, id DESC LIMIT ?2
            """,
            words.strip().casefold(),
            MOST_LISTED,
        )
        return tuple(Listed(number, text(title), changed) for number, title, changed in rows)

    def open(self, conversation: ConversationId) -> Opened:
        """Raises `KeyError` if there is none."""
        rows = self._database.rows("SELECT title FROM conversation WHERE id = ?", conversation)
        if not rows:
            raise KeyError(conversation)
        entries = [entry_of(row) for row in self._database.rows(_PATH, conversation)]
        if entries and entries[-1].ending is None:
            entries[-1] = self._so_far(entries[-1])
        return Opened(conversation, text(rows[0][0]), self.answers.told(conversation, entries))

    def turn_to(
        self, conversation: ConversationId, answer: EntryId, head: EntryId | None
    ) -> ConversationId:
        """Go on behind another answer, and with what followed it before.

        `head` and what is returned are as for `append`.
        """
        with self._database.writing() as connection:
            end = self.answers.end_behind(connection, conversation, answer)
            return self._rows.end_at(connection, conversation, end, head)

    def rename(self, conversation: ConversationId, title: str) -> None:
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE conversation SET title = ? WHERE id = ?", (blob(title), conversation)
            )

    def delete(self, conversation: ConversationId) -> None:
        """It can be brought back for a day."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE conversation SET deleted = ? WHERE id = ?", (self._clock(), conversation)
            )

    def undelete(self) -> ConversationId | None:
        """Bring back what was deleted last; None if there is nothing."""
        rows = self._database.rows(
            "SELECT id FROM conversation WHERE deleted IS NOT NULL "
            "ORDER BY deleted DESC, id DESC LIMIT 1"
        )
        if not rows:
            return None
        conversation = ConversationId(rows[0][0])
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE conversation SET deleted = NULL WHERE id = ?", (conversation,)
            )
        return conversation

    def purge(self) -> None:
        """Remove for good what was deleted more than a day ago, and what nobody can reach."""
        with self._database.writing() as connection:
            before = self._clock() - SECONDS_TO_UNDO
            connection.execute(
                "DELETE FROM conversation WHERE deleted < ? OR (head IS NULL AND changed < ?)",
                (before, before),
            )
            # Children first: a parent may go only when nothing refers to it.
            connection.execute("PRAGMA defer_foreign_keys = ON")
            connection.execute(f"DELETE FROM message WHERE id NOT IN ({_NEEDED})")
            self.sent.purge(connection)

    # --- messages ---

    def append(
        self,
        conversation: ConversationId,
        after: EntryId | None,
        remark: Remark,
        head: EntryId | None = None,
    ) -> Appended:
        """One more remark behind `after`, where the conversation then ends.

        `head` is where it ended for the caller, `after` if not given. If it ends elsewhere by
        now, another program went on with it, and this becomes a conversation of its own.
        """
        with self._database.writing() as connection:
            entry = self._rows.insert(connection, conversation, after, remark)
            before = after if head is None else head
            ends = self._rows.end_at(connection, conversation, entry, before)
            if ends != conversation:
                connection.execute(
                    "UPDATE message SET conversation = ? WHERE id = ?", (ends, entry)
                )
        return Appended(ends, entry)

    def take_in(self, imported: Imported) -> ConversationId:
        """A conversation of another program with all its branches."""
        with self._database.writing() as connection:
            conversation = self._rows.begin(connection, imported.title, None)
            entries: list[EntryId] = []
            for node in imported.nodes:
                after = None if node.parent is None else entries[node.parent]
                entries.append(self._rows.insert(connection, conversation, after, node.remark))
            connection.execute(
                "UPDATE conversation SET head = ? WHERE id = ?",
                (None if imported.head is None else entries[imported.head], conversation),
            )
        return conversation

    def grow(self, entry: EntryId, said: str, thought: str, stats: AnswerStats) -> None:
        """More of an answer. What this costs does not depend on how much there is."""
        with self._database.writing() as connection:
            connection.execute(
                "INSERT INTO piece (message, content, thought, stats) VALUES (?, ?, ?, ?)",
                (entry, blob(said), blob(thought), written(stats)),
            )

    def finish(self, entry: EntryId, remark: Remark) -> None:
        """The answer as it is in the end, in place of what grew."""
        with self._database.writing() as connection:
            self._rows.finish(connection, entry, remark)

    def withdraw(self, conversation: ConversationId, entry: EntryId, head: EntryId | None) -> None:
        """Take the last message away; the conversation ends at `head` again."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE conversation SET head = ? WHERE id = ?", (head, conversation)
            )
            connection.execute("DELETE FROM message WHERE id = ?", (entry,))

    def settle_broken(self) -> tuple[ConversationId, ...]:
        """Keep what there is of answers whose program ended; where they stand, the last first."""
        rows = self._database.rows(
            f"SELECT {MESSAGE_COLUMNS}, writer FROM message WHERE ending IS NULL"
        )
        broken = [
            self._so_far(entry_of(tuple(row))) for *row, writer in rows if not still_runs(writer)
        ]
        for entry in broken:
            with self._database.writing() as connection:
                self._rows.finish(connection, entry.id, replace(entry, ending=Ending.BROKEN_OFF))
        ids = [entry.id for entry in broken]
        heads = self._database.rows(
            "SELECT id, head FROM conversation WHERE deleted IS NULL ORDER BY changed DESC, id DESC"
        )
        return tuple(ConversationId(number) for number, head in heads if head in ids)

    def _so_far(self, entry: Entry) -> Entry:
        """An answer under way with what there is of it."""
        rows = self._database.rows(
            "SELECT content, thought, stats FROM piece WHERE message = ? ORDER BY id", entry.id
        )
        said = "".join(text(content) for content, _, _ in rows)
        thought = "".join(text(thought) for _, thought, _ in rows)
        message = msgspec.structs.replace(entry.message, content=said, thought=thought)
        stats = stats_of(rows[-1][2]) if rows else entry.stats
        return replace(entry, message=message, stats=stats)
