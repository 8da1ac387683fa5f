"""Several answers to one question, and what follows each of them."""

from __future__ import annotations

from pathlib import Path

from edgekv.history.archive import Archive
from edgekv.history.dialogue import Dialogue
from tests.history.saying import answer, break_file, exchange, on_disk, said


def places(dialogue: Dialogue) -> list[str]:
    return [entry.place_words for entry in dialogue.entries]


def test_another_answer_is_kept_beside_the_first_and_each_can_be_gone_back_to(
    dialogue: Dialogue, path: Path
) -> None:
    exchange(dialogue, "Why?", "first")
    assert places(dialogue) == ["", ""]
    answer(dialogue, "second")
    answer(dialogue, "third")
    assert places(dialogue) == ["", "3 of 3"]
    assert not dialogue.turn_to(1, 1)
    assert dialogue.turn_to(1, -2)
    assert (said(dialogue), places(dialogue)) == (["Why?", "first"], ["", "1 of 3"])
    assert on_disk(path, dialogue) == ["Why?", "first"]
    assert not dialogue.turn_to(1, -1)
    assert not dialogue.turn_to(0, 1)


def test_what_followed_an_answer_follows_it_again(dialogue: Dialogue) -> None:
    exchange(dialogue, "Why?", "first")
    exchange(dialogue, "And then?", "much")
    dialogue.rewind(1)
    answer(dialogue, "second")
    assert said(dialogue) == ["Why?", "second"]
    exchange(dialogue, "So?", "little")
    dialogue.turn_to(1, -1)
    assert said(dialogue) == ["Why?", "first", "And then?", "much"]
    assert places(dialogue) == ["", "1 of 2", "", ""]
    dialogue.turn_to(1, 1)
    assert said(dialogue) == ["Why?", "second", "So?", "little"]


def test_an_answer_that_was_taken_back_is_no_alternative(dialogue: Dialogue) -> None:
    exchange(dialogue, "Why?", "first")
    dialogue.begin_answer("model")
    dialogue.withdraw_answer()
    assert places(dialogue) == ["", ""]
    assert not dialogue.turn_to(1, -1)


def test_a_fork_has_the_answers_of_both_conversations_and_the_first_stays_as_it_was(
    dialogue: Dialogue, path: Path
) -> None:
    exchange(dialogue, "Why?", "first")
    answer(dialogue, "second")
    first = dialogue.id
    assert first is not None
    dialogue.fork(1)
    answer(dialogue, "third")
    assert places(dialogue) == ["", "3 of 3"]
    dialogue.turn_to(1, -2)
    assert said(dialogue) == ["Why?", "first"]
    dialogue.open(first)
    assert (said(dialogue), places(dialogue)) == (["Why?", "second"], ["", "2 of 2"])


def test_a_conversation_that_went_on_elsewhere_is_turned_in_a_copy(
    dialogue: Dialogue, path: Path
) -> None:
    exchange(dialogue, "Why?", "first")
    answer(dialogue, "second")
    assert dialogue.id is not None
    first, other = dialogue.id, Dialogue(Archive(path))
    other.open(first)
    exchange(other, "And then?", "much")
    assert dialogue.turn_to(1, -1)
    assert dialogue.moved_on
    assert said(dialogue) == ["Why?", "first"]
    assert on_disk(path, other) == ["Why?", "second", "And then?", "much"]


def test_what_cannot_be_read_any_more_leaves_the_conversation_as_it_is(
    dialogue: Dialogue, path: Path
) -> None:
    exchange(dialogue, "Why?", "first")
    answer(dialogue, "second")
    break_file(path)
    assert not dialogue.turn_to(1, -1)
    assert said(dialogue) == ["Why?", "second"]
    assert places(dialogue) == ["", ""]
    exchange(dialogue, "And then?", "much")
