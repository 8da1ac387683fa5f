"""Conversations in a file: kept exactly, shared between programs, never half written."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgekv.core.events import FinishReason
from edgekv.errors import NotSaved, Unavailable
from edgekv.history.entries import ConversationId, Ending, EntryId, Remark
from edgekv.history.schema import MIGRATIONS, VERSION
from edgekv.history.store import SECONDS_TO_UNDO, History
from edgekv.service.conversation import AnswerStats
from edgekv.service.messages import Message, ToolCall

EXACT = "\x00 \x1b[2J é 한국어 👩\u200d👩\u200d👧 \ud800 \r\n\ttail "
STATS = AnswerStats(40, 31, 2, 1.5, (1, 0.5), FinishReason.STOP)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "conversations.sqlite"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def history(path: Path, clock: Clock) -> Iterator[History]:
    history = History(path, clock)
    yield history
    history.close()


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


def test_what_was_said_is_there_to_the_last_character_when_the_file_is_opened_again(
    path: Path,
) -> None:
    first = History(path)
    conversation = first.begin(EXACT)
    call = ToolCall("1", "look", {"at": EXACT, "deep": [1, None]})
    message = Message("assistant", EXACT, tool_calls=(call,), thought=EXACT)
    question = first.append(conversation, None, Remark(Message("user", EXACT))).entry
    answer = first.append(conversation, question, Remark(message, "Ü model", None)).entry
    first.finish(answer, Remark(message, stats=STATS))
    before = first.open(conversation)
    first.close()
    again = History(path)
    assert again.open(conversation) == before
    assert [entry.message for entry in before.entries] == [Message("user", EXACT), message]
    assert before.entries[1].stats == STATS
    assert before.entries[1].model == "Ü model"
    assert before.title == EXACT
    again.close()


def test_the_file_is_for_its_owner_alone(history: History, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_an_answer_is_read_as_it_grows_and_costs_the_same_for_each_piece(
    history: History, path: Path
) -> None:
    conversation = history.begin("t")
    (question,) = say(history, conversation, "?")
    answer = history.append(conversation, question, Remark(Message("assistant"), ending=None)).entry

    def bytes_written(num_pieces: int) -> int:
        wal = path.with_name(path.name + "-wal")
        with sqlite3.connect(path) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        other.close()
        for _ in range(num_pieces):
            history.grow(answer, "word " * 20, "", STATS)
        return wal.stat().st_size

    early = bytes_written(20)
    bytes_written(400)
    late = bytes_written(20)
    assert late <= early * 1.5
    entry = history.open(conversation).entries[-1]
    assert entry.ending is None
    assert entry.message.content == "word " * 20 * 440
    history.finish(answer, Remark(Message("assistant", "whole"), ending=Ending.STOPPED))
    assert texts(history, conversation) == ["?", "whole"]
    assert history.open(conversation).entries[-1].ending is Ending.STOPPED


WRITE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from edgekv.history.entries import Remark
from edgekv.history.store import History
from edgekv.service.conversation import AnswerStats
from edgekv.service.messages import Message

history = History(Path(sys.argv[1]))
conversation = history.begin("t")
question = history.append(conversation, None, Remark(Message("user", "?"))).entry
answer = history.append(conversation, question, Remark(Message("assistant"), ending=None)).entry
history.grow(answer, "Half an", "thought", AnswerStats(num_generated=2))
history.grow(answer, " answ", "", AnswerStats(num_generated=3))
sys.stdout.write("written")
sys.stdout.flush()
sys.stdin.read()
"""


def test_what_a_killed_program_had_written_is_kept_and_said_to_be_broken_off(path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITE_AND_DIE, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.read(len("written"))
        history = History(path)
        assert history.settle_broken() == ()  # it still writes
        os.kill(program.pid, signal.SIGKILL)
        program.wait()
    (conversation,) = history.settle_broken()
    entry = history.open(conversation).entries[-1]
    assert (entry.message.content, entry.message.thought) == ("Half an answ", "thought")
    assert entry.ending is Ending.BROKEN_OFF
    assert entry.stats == AnswerStats(num_generated=3)
    assert history.settle_broken() == ()
    history.close()


def test_a_fork_holds_what_came_before_without_a_copy(history: History, path: Path) -> None:
    conversation = history.begin("t")
    entries = say(history, conversation, "a", "b", "c", "d")
    fork = history.begin("fork", at=entries[1])
    assert num_messages(path) == 4
    assert texts(history, fork) == ["a", "b"]
    history.append(fork, entries[1], Remark(Message("user", "other")))
    assert texts(history, fork) == ["a", "b", "other"]
    assert texts(history, conversation) == ["a", "b", "c", "d"]


def test_another_answer_takes_the_place_of_the_last_and_may_be_taken_back(
    history: History,
) -> None:
    conversation = history.begin("t")
    question, old = say(history, conversation, "?", "old")
    new = history.append(conversation, question, Remark(Message("assistant", "new")), head=old)
    assert texts(history, conversation) == ["?", "new"]
    history.withdraw(conversation, new.entry, old)
    assert texts(history, conversation) == ["?", "old"]


def test_two_programs_that_go_on_with_one_conversation_get_one_each(
    history: History, path: Path
) -> None:
    conversation = history.begin("t")
    _, answer = say(history, conversation, "a", "b")
    other = History(path)
    mine = history.append(conversation, answer, Remark(Message("user", "mine")))
    theirs = other.append(conversation, answer, Remark(Message("user", "theirs")))
    assert mine.conversation == conversation
    assert theirs.conversation != conversation
    assert texts(other, conversation) == ["a", "b", "mine"]
    assert texts(history, theirs.conversation) == ["a", "b", "theirs"]
    assert titles(history) == ["t", "t"]
    other.close()


def test_a_list_is_searched_in_titles_and_texts_in_upper_and_lower_case(
    history: History,
) -> None:
    say(history, history.begin("Über Maße"), "about %_ signs")
    say(history, history.begin("Other"), "nothing here")
    history.begin("Empty, so not listed")
    assert titles(history) == ["Other", "Über Maße"]
    assert titles(history, " über MASSE ") == ["Über Maße"]
    assert titles(history, "%_ SIGNS") == ["Über Maße"]
    assert titles(history, "%") == ["Über Maße"]
    assert titles(history, "absent") == []


def test_a_deleted_conversation_comes_back_for_a_day_and_then_is_gone_as_bytes_too(
    history: History, path: Path, clock: Clock
) -> None:
    secret = history.begin("secret title")
    entries = say(history, secret, "secret question", "secret answer")
    history.sent.add("secret question", secret)
    kept = history.begin("kept", at=entries[0])
    history.delete(secret)
    assert titles(history) == ["kept"]
    history.purge()
    assert history.undelete() == secret
    assert history.undelete() is None
    assert texts(history, secret) == ["secret question", "secret answer"]
    history.delete(secret)
    clock.now += SECONDS_TO_UNDO + 10
    history.purge()
    assert history.undelete() is None
    assert texts(history, kept) == ["secret question"]  # the fork still shares it
    assert history.sent.all() == []
    history.close()
    assert b"secret answer" not in path.read_bytes()
    assert b"secret title" not in path.read_bytes()


def test_an_open_conversation_that_was_deleted_elsewhere_comes_back_when_it_goes_on(
    history: History,
) -> None:
    conversation = history.begin("t")
    (entry,) = say(history, conversation, "a")
    history.delete(conversation)
    history.append(conversation, entry, Remark(Message("assistant", "b")))
    assert titles(history) == ["t"]


def test_texts_that_were_sent_are_remembered_oldest_first_and_not_for_ever(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgekv.history.sent.MOST_SENT", 3)
    for number in range(5):
        history.sent.add(f"{number}\n{EXACT}", None)
    assert history.sent.all() == [f"{number}\n{EXACT}" for number in (2, 3, 4)]


def test_a_file_of_a_newer_version_is_left_as_it_is(path: Path) -> None:
    History(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(Unavailable, match=r"newer EdgeKV .* update EdgeKV"):
        History(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", range(VERSION))
def test_a_file_of_every_older_version_is_brought_up_to_date(path: Path, version: int) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as connection:
        for script in MIGRATIONS[:version]:
            connection.executescript(script)
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    history = History(path)
    say(history, history.begin("t"), "a")
    assert titles(history) == ["t"]
    history.close()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda path: path.parent.write_text("a file"), "File exists"),
        (lambda path: path.mkdir(parents=True), "Is a directory"),
        (lambda path: (path.parent.mkdir(), path.write_text("words " * 99)), "not a database"),
    ],
)
def test_a_place_that_cannot_be_written_is_named_in_one_sentence(
    path: Path, spoil: object, reason: str
) -> None:
    assert callable(spoil)
    spoil(path)
    with pytest.raises(NotSaved) as caught:
        History(path)
    assert str(path) in str(caught.value)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_program_without_a_home_folder_writes_nothing_where_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotSaved, match="XDG_DATA_HOME"):
        History(Path("~/relative.sqlite"))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_another_program_holds_too_long_is_an_error_and_nothing_is_half_written(
    history: History, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgekv.history.database.SECONDS_TO_WAIT", 0)
    hasty = History(path)
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(NotSaved, match="locked"):
        say(hasty, ConversationId(1), "a")
    blocker.execute("ROLLBACK")
    blocker.close()
    assert num_messages(path) == 0
    hasty.close()


def test_without_a_file_everything_works_until_the_program_ends() -> None:
    history = History(None)
    conversation = history.begin("t")
    say(history, conversation, "a", "b")
    assert texts(history, conversation) == ["a", "b"]
    assert titles(history) == ["t"]
    history.close()
