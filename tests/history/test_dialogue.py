"""A conversation as it goes on, and what the history has of it at every moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgekv.core.events import FinishReason
from edgekv.history.archive import Archive
from edgekv.history.dialogue import SECONDS_BETWEEN_WRITES, Dialogue, title_of
from edgekv.history.entries import ConversationId, Ending, Remark
from edgekv.history.store import History
from edgekv.service.conversation import AnswerPart, AnswerStats
from edgekv.service.messages import Message
from edgekv.service.pieces import Called
from tests.history.saying import (
    SteadyClock,
    answer,
    exchange,
    on_disk,
    part,
    said,
)


def test_everything_said_is_in_the_file_at_once_and_an_answer_within_moments(
    dialogue: Dialogue, path: Path, still: SteadyClock
) -> None:
    dialogue.ask("Why?")
    assert on_disk(path, dialogue) == ["Why?"]
    dialogue.begin_answer("model")
    dialogue.grow(part("Be", 1))
    dialogue.grow(part("cause", 2))
    assert on_disk(path, dialogue) == ["Why?", ""]
    still.now += SECONDS_BETWEEN_WRITES
    dialogue.grow(part(" I", 3))
    assert on_disk(path, dialogue) == ["Why?", "Because I"]
    dialogue.grow(AnswerPart(" say.", AnswerStats(10, 5, 4, reason=FinishReason.STOP)))
    dialogue.end_answer(Ending.WHOLE)
    assert on_disk(path, dialogue) == ["Why?", "Because I say."] == said(dialogue)
    assert dialogue.num_held == 14
    assert dialogue.title == "Why?"


def test_thoughts_and_calls_are_kept_with_the_answer(dialogue: Dialogue) -> None:
    dialogue.ask("?")
    dialogue.begin_answer("model")
    dialogue.grow(part("", thought="Hm, "))
    dialogue.grow(AnswerPart("So.", AnswerStats(), "hm.", (Called("look", '{"at": "é"}'),)))
    dialogue.end_answer(Ending.WHOLE)
    message = dialogue.conversation.messages[-1]
    assert (message.thought, message.content) == ("Hm, hm.", "So.")
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("look", {"at": "é"})]


def test_an_answer_that_never_began_leaves_no_trace(dialogue: Dialogue, path: Path) -> None:
    exchange(dialogue, "a", "b")
    dialogue.ask("c")
    dialogue.begin_answer("model")
    dialogue.withdraw_answer()
    assert on_disk(path, dialogue) == ["a", "b", "c"]
    dialogue.withdraw_question()
    assert on_disk(path, dialogue) == ["a", "b"] == said(dialogue)


def test_another_answer_replaces_the_last_only_once_it_begins(
    dialogue: Dialogue, path: Path
) -> None:
    exchange(dialogue, "a", "old")
    dialogue.begin_answer("model")
    dialogue.withdraw_answer()
    dialogue.withdraw_question()
    assert on_disk(path, dialogue) == ["a", "old"] == said(dialogue)
    answer(dialogue, "new")
    assert on_disk(path, dialogue) == ["a", "new"] == said(dialogue)


def test_an_edited_question_takes_the_place_of_what_came_after_when_it_is_sent(
    dialogue: Dialogue, path: Path
) -> None:
    exchange(dialogue, "a", "b")
    exchange(dialogue, "c", "d")
    assert dialogue.rewind(0) == "a"
    assert on_disk(path, dialogue) == ["a", "b", "c", "d"]
    exchange(dialogue, "A", "B")
    assert on_disk(path, dialogue) == ["A", "B"] == said(dialogue)
    assert not dialogue.moved_on


def test_a_fork_goes_its_own_way_and_leaves_the_first_as_it_was(
    dialogue: Dialogue, path: Path, archive: Archive
) -> None:
    exchange(dialogue, "a", "b")
    exchange(dialogue, "c", "d")
    first = dialogue.id
    assert first is not None
    dialogue.fork(1)
    assert dialogue.id != first
    exchange(dialogue, "other", "way")
    assert on_disk(path, dialogue) == ["a", "b", "other", "way"] == said(dialogue)
    dialogue.open(first)
    assert said(dialogue) == ["a", "b", "c", "d"]
    assert len(archive.history.listed()) == 2


def test_a_system_text_comes_first_whenever_it_is_set(dialogue: Dialogue, path: Path) -> None:
    dialogue.new(system="Be brief.")
    exchange(dialogue, "a", "b")
    assert said(dialogue) == ["Be brief.", "a", "b"]
    dialogue.set_system("Be long.")
    assert on_disk(path, dialogue) == ["Be long.", "a", "b"] == said(dialogue)
    assert dialogue.system == "Be long."
    dialogue.set_system("")
    exchange(dialogue, "c", "d")
    assert on_disk(path, dialogue) == ["a", "b", "c", "d"] == said(dialogue)
    assert not dialogue.moved_on


def test_a_conversation_that_went_on_elsewhere_becomes_one_of_its_own_and_says_so(
    dialogue: Dialogue, archive: Archive
) -> None:
    exchange(dialogue, "a", "b")
    shared = dialogue.id
    assert shared is not None
    other = Dialogue(archive)
    other.open(shared)
    exchange(other, "theirs", "!")
    assert not other.moved_on
    exchange(dialogue, "mine", "!")
    assert dialogue.moved_on
    assert said(dialogue) == ["a", "b", "mine", "!"]
    other.open(shared)
    assert said(other) == ["a", "b", "theirs", "!"]


@pytest.mark.parametrize("orderly", [True, False])
def test_what_there_is_of_an_answer_is_written_when_the_program_ends(
    dialogue: Dialogue, path: Path, orderly: bool
) -> None:
    dialogue.ask("?")
    dialogue.begin_answer("model")
    dialogue.grow(part("Half"))
    dialogue.close(orderly=orderly)
    assert on_disk(path, dialogue) == ["?", "Half"]
    history = History(path)
    entry = history.open(dialogue.id or ConversationId(0)).entries[-1]
    assert entry.ending is (Ending.STOPPED if orderly else None)
    history.close()


def test_a_new_conversation_may_begin_with_messages_that_are_there_already(
    dialogue: Dialogue, path: Path
) -> None:
    exchange(dialogue, "a", "b")
    dialogue.start_from(
        [Remark(Message("user", "So far?")), Remark(Message("assistant", "This."))], "Summary"
    )
    assert on_disk(path, dialogue) == ["So far?", "This."] == said(dialogue)
    assert dialogue.title == "Summary"


def test_a_title_is_the_first_words_in_one_line() -> None:
    assert title_of("  Why\n\nis it? ") == "Why is it?"
    assert title_of("word " * 50) == "word " * 11 + "word…"
