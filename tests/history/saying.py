"""Things to say in a conversation, and ways to look at what is kept of it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from edgekv.core.events import FinishReason
from edgekv.history.dialogue import Dialogue
from edgekv.history.entries import ConversationId, Ending, EntryId, Remark
from edgekv.history.store import History
from edgekv.service.conversation import AnswerPart, AnswerStats
from edgekv.service.messages import Message

EXACT = "\x00 \x1b[2J é 한국어 👩\u200d👩\u200d👧 \ud800 \r\n\ttail "
STATS = AnswerStats(40, 31, 2, 1.5, (1, 0.5), FinishReason.STOP)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


class SteadyClock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def say(history: History, conversation: ConversationId, *texts: str) -> list[EntryId]:
    """Append texts of user and assistant in turns to a conversation that is still empty."""
    entries: list[EntryId] = []
    for number, text in enumerate(texts):
        message = Message("assistant" if number % 2 else "user", text)
        after = entries[-1] if entries else None
        entries.append(history.append(conversation, after, Remark(message)).entry)
    return entries


def texts(history: History, conversation: ConversationId) -> list[str]:
    return [entry.message.content for entry in history.open(conversation).entries]


def titles(history: History, words: str = "") -> list[str]:
    return [listed.title for listed in history.listed(words)]


def num_messages(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        (number,) = connection.execute("SELECT count(*) FROM message").fetchone()
    connection.close()
    return int(number)


def part(text: str, num_generated: int = 1, thought: str = "") -> AnswerPart:
    return AnswerPart(text, AnswerStats(10, 5, num_generated), thought)


def answer(dialogue: Dialogue, text: str) -> None:
    dialogue.begin_answer("model")
    dialogue.grow(part(text))
    dialogue.end_answer(Ending.WHOLE)


def exchange(dialogue: Dialogue, question: str, reply: str) -> None:
    dialogue.ask(question)
    answer(dialogue, reply)


def said(dialogue: Dialogue) -> list[str]:
    return [message.content for message in dialogue.conversation.messages]


def on_disk(path: Path, dialogue: Dialogue) -> list[str]:
    """What another program reads of the conversation."""
    assert dialogue.id is not None
    history = History(path)
    try:
        return [entry.message.content for entry in history.open(dialogue.id).entries]
    finally:
        history.close()


def break_file(path: Path) -> None:
    """From now on nothing can be written to it."""
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE piece")
        connection.execute("ALTER TABLE message RENAME TO gone")
        connection.execute("ALTER TABLE conversation RENAME TO gone_too")
    connection.close()


def mend_file(path: Path) -> None:
    """What `break_file` broke can be written again."""
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE gone RENAME TO message")
        connection.execute("ALTER TABLE gone_too RENAME TO conversation")
        connection.execute(
            "CREATE TABLE piece (id INTEGER PRIMARY KEY AUTOINCREMENT, "
            "message INTEGER NOT NULL REFERENCES message (id) ON DELETE CASCADE, "
            "content BLOB NOT NULL, thought BLOB NOT NULL, stats BLOB NOT NULL)"
        )
    connection.close()
