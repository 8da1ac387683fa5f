"""What becomes of a conversation when its file fails, or its program ends."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from edgekv.history.archive import Archive
from edgekv.history.dialogue import SECONDS_BETWEEN_WRITES, Dialogue
from edgekv.history.entries import Ending
from tests.history.saying import (
    SteadyClock,
    break_file,
    exchange,
    mend_file,
    on_disk,
    part,
    said,
)


@pytest.mark.parametrize("breaks_at", ["question", "answer", "piece", "end", "withdrawal"])
def test_when_saving_fails_the_conversation_goes_on_whole_and_the_reason_is_known(
    dialogue: Dialogue, archive: Archive, path: Path, still: SteadyClock, breaks_at: str
) -> None:
    exchange(dialogue, "a", "b")

    def come_to(moment: str) -> None:
        if moment == breaks_at:
            assert archive.problem == ""
            break_file(path)

    come_to("question")
    dialogue.ask("c")
    come_to("answer")
    dialogue.begin_answer("model")
    dialogue.grow(part("d"))
    come_to("piece")
    still.now += SECONDS_BETWEEN_WRITES
    dialogue.grow(part("e"))
    come_to("end")
    if breaks_at == "withdrawal":
        come_to("withdrawal")
        dialogue.withdraw_answer()
        dialogue.withdraw_question()
        dialogue.ask("c")
        dialogue.begin_answer("model")
        dialogue.grow(part("de"))
    dialogue.end_answer(Ending.WHOLE)
    exchange(dialogue, "f", "g")
    assert str(path) in archive.problem
    assert not archive.is_saved
    assert said(dialogue) == ["a", "b", "c", "de", "f", "g"]
    number = dialogue.id
    assert number is not None
    dialogue.open(number)
    assert said(dialogue) == ["a", "b", "c", "de", "f", "g"]


def test_a_conversation_that_moved_to_memory_can_still_be_taken_back(
    dialogue: Dialogue, path: Path
) -> None:
    exchange(dialogue, "a", "b")
    dialogue.ask("c")
    break_file(path)
    dialogue.begin_answer("model")
    dialogue.withdraw_answer()
    dialogue.withdraw_question()
    assert said(dialogue) == ["a", "b"]
    exchange(dialogue, "f", "g")
    assert said(dialogue) == ["a", "b", "f", "g"]


def test_an_archive_opens_where_a_program_ended_in_the_middle_of_an_answer(path: Path) -> None:
    archive = Archive(path)
    dialogue = Dialogue(archive)
    dialogue.ask("?")
    dialogue.begin_answer("model")
    dialogue.grow(part("Half"))
    dialogue.close(orderly=False)
    archive.close()
    with sqlite3.connect(path) as connection:  # as if it had been another process
        connection.execute("UPDATE message SET writer = ''")
    connection.close()
    again = Archive(path)
    assert again.was_broken_off
    assert again.to_open == dialogue.id
    again.close()
    later = Archive(path)
    assert not later.was_broken_off
    assert later.to_open is None
    later.resume_last()
    assert later.to_open == dialogue.id
    later.close()


def test_where_nothing_can_be_saved_the_archive_says_why_and_works(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    archive = Archive(tmp_path / "file" / "conversations.sqlite")
    assert "cannot be saved" in archive.problem
    dialogue = Dialogue(archive)
    exchange(dialogue, "a", "b")
    assert said(dialogue) == ["a", "b"]
    assert Archive(None).problem == ""


@pytest.mark.parametrize("breaks_at", ["question", "answer", "piece"])
def test_a_file_that_can_be_written_again_gets_all_that_was_said_meanwhile(
    dialogue: Dialogue, archive: Archive, path: Path, still: SteadyClock, breaks_at: str
) -> None:
    exchange(dialogue, "a", "b")
    number = dialogue.id
    for moment in ("question", "answer", "piece"):
        if moment == breaks_at:
            break_file(path)
        if moment == "question":
            dialogue.ask("c")
        elif moment == "answer":
            dialogue.begin_answer("model")
        else:
            still.now += SECONDS_BETWEEN_WRITES
            dialogue.grow(part("d"))
    dialogue.end_answer(Ending.WHOLE)
    assert not archive.is_saved
    mend_file(path)
    exchange(dialogue, "e", "f")
    assert archive.is_saved
    assert archive.problem == ""
    assert dialogue.id == number
    assert said(dialogue) == on_disk(path, dialogue) == ["a", "b", "c", "d", "e", "f"]
    assert [listed.title for listed in archive.history.listed()] == ["a"]
    assert not archive.history.settle_broken()


def test_conversations_that_began_in_memory_come_into_the_file_too(
    dialogue: Dialogue, archive: Archive, path: Path
) -> None:
    exchange(dialogue, "a", "b")
    break_file(path)
    dialogue.new()
    exchange(dialogue, "c", "d")
    dialogue.new()
    exchange(dialogue, "e", "f")
    mend_file(path)
    dialogue.ask("g")
    assert {listed.title for listed in archive.history.listed()} == {"a", "c", "e"}
    assert on_disk(path, dialogue) == ["e", "f", "g"]
