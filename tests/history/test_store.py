"""Conversations in a file: kept exactly, shared between programs, never half written."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from edgekv.history.entries import Ending, Remark
from edgekv.history.store import SECONDS_TO_UNDO, History
from edgekv.service.conversation import AnswerStats
from edgekv.service.messages import Message, ToolCall
from tests.history.saying import (
    EXACT,
    STATS,
    Clock,
    num_messages,
    say,
    texts,
    titles,
)


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
