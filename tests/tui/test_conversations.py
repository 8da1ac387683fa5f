"""The list of conversations, and going on from any message."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual import events

from edgekv.errors import EngineDied
from edgekv.history.archive import Archive
from edgekv.history.dialogue import Dialogue
from edgekv.history.entries import Ending
from edgekv.service.conversation import AnswerPart, AnswerStats
from edgekv.service.pieces import Called
from edgekv.tui.conversation_list import ago_words
from edgekv.tui.question import MOST_LINES, fold
from edgekv.tui.spoken import Spoken
from edgekv.tui.transcript import MOST_AT_ONCE, MOST_SHOWN
from tests.history.saying import break_file, exchange
from tests.tui.fakes import Script, ScriptedWorker, asked
from tests.tui.open_chat import OpenChat, open_chat
from tests.tui.test_drawing import PAYLOADS, assert_only_drawn

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "conversations.sqlite"


def said(chat: OpenChat) -> list[str]:
    return [message.content for message in chat.screen.dialogue.conversation.messages]


def a_worker(*answers: str) -> ScriptedWorker:
    return ScriptedWorker(*(Script(words=(answer,)) for answer in answers))


async def test_the_list_opens_what_was_said_before(path: Path) -> None:
    archive = Archive(path)
    exchange(Dialogue(archive), "About lighthouses", "They shine.")
    exchange(Dialogue(archive), "About bread", "It rises.")
    async with open_chat(a_worker("Yes."), archive=archive) as chat:
        await chat.pilot.press("ctrl+l")
        await chat.shows("About bread")
        assert "About lighthouses" in chat.text()
        await chat.pilot.press(*"shine")
        await chat.until(lambda: "About bread" not in chat.text())
        await chat.pilot.press("enter")
        await chat.shows("They shine.")
        await chat.ask("Still?")
        assert asked(chat.worker.submits[0])[:2] == [
            "user: About lighthouses",
            "assistant: They shine.",
        ]


async def test_a_conversation_is_renamed_deleted_and_brought_back(path: Path) -> None:
    archive = Archive(path)
    exchange(Dialogue(archive), "Old name", "…")
    async with open_chat(a_worker(), archive=archive) as chat:
        await chat.pilot.press("ctrl+l", "ctrl+e")
        await chat.pilot.press(*"Fresh", "enter")
        await chat.shows("Fresh")
        await chat.pilot.press("ctrl+d")
        await chat.shows("none yet")
        await chat.pilot.press("ctrl+z")
        await chat.until(lambda: "none yet" not in chat.text())
        assert [listed.title for listed in archive.history.listed()] == ["Fresh"]
        await chat.pilot.press("escape", "x")
        assert chat.prompt.text == "x"


async def test_deleting_what_is_open_begins_a_new_conversation(path: Path) -> None:
    async with open_chat(a_worker("There."), archive=Archive(path)) as chat:
        await chat.ask("Where?")
        await chat.pilot.press("ctrl+l", "ctrl+d")
        await chat.shows("Ask anything.")
        assert said(chat) == []


async def test_nothing_pasted_into_the_search_can_drive_the_terminal() -> None:
    async with open_chat(a_worker()) as chat:
        await chat.pilot.press("ctrl+l")
        assert chat.app.focused is not None
        chat.app.focused.post_message(events.Paste("\x1b]0;x\x07"))
        await chat.shows("␛]0;x␇")


async def test_a_fork_goes_on_from_any_message_and_the_first_stays_as_it_was(path: Path) -> None:
    archive = Archive(path)
    async with open_chat(a_worker("A.", "B.", "C."), archive=archive) as chat:
        await chat.ask("a?")
        await chat.ask("b?")
        await chat.pilot.press("ctrl+up", "up", "up", "f")
        await chat.shows("A new conversation goes on from here")
        await chat.ask("c?")
        assert asked(chat.worker.submits[2]) == ["user: a?", "assistant: A.", "user: c?"]
        assert len(archive.history.listed()) == 2
        await chat.pilot.press("ctrl+l", "down", "enter")
        await chat.until(lambda: said(chat) == ["a?", "A.", "b?", "B."])


async def test_a_question_is_edited_in_the_box_and_sent_in_place_of_the_first() -> None:
    async with open_chat(a_worker("A.", "B.", "C.")) as chat:
        await chat.ask("a?")
        await chat.ask("b?")
        await chat.paste("a draft")
        await chat.pilot.press("ctrl+up", "up", "up", "e")
        await chat.until(lambda: chat.prompt.text == "a?")
        assert "B." not in chat.text()
        await chat.pilot.press("!", "enter")
        await chat.is_idle()
        assert said(chat) == ["a?!", "C."]
        assert asked(chat.worker.submits[2]) == ["user: a?!"]
        await chat.pilot.press("up", "up")
        assert chat.prompt.text == "a draft"


async def test_an_earlier_question_is_answered_once_more() -> None:
    async with open_chat(a_worker("A.", "B.", "C.")) as chat:
        await chat.ask("a?")
        await chat.ask("b?")
        await chat.pilot.press("ctrl+up", "up", "up", "r")
        await chat.shows("C.")
        await chat.is_idle()
        assert said(chat) == ["a?", "C."]


async def test_a_message_s_text_and_its_code_are_copied_exactly() -> None:
    answer = "Look:\n```py\nx = 1\x1b[2J\n```\n"
    async with open_chat(a_worker(answer)) as chat:
        await chat.ask("a?")
        await chat.pilot.press("ctrl+up", "y")
        assert chat.app.clipboard == "x = 1\x1b[2J\n"
        await chat.pilot.press("c")
        assert chat.app.clipboard == answer
        await chat.pilot.press("escape", "x")
        assert chat.prompt.text == "x"


async def test_a_click_on_copy_copies_that_piece_of_code() -> None:
    async with open_chat(a_worker("```\none\n```\n\n```\ntwo\n```")) as chat:
        await chat.ask("a?")
        rows = chat.text().splitlines()
        at = next(y for y, row in enumerate(rows) if "copy" in row)
        await chat.pilot.click(offset=(rows[at].rindex("copy") + 1, at))
        assert chat.app.clipboard == "one\n"


async def test_thoughts_are_folded_until_they_are_asked_for() -> None:
    gate = asyncio.Semaphore(1)
    worker = ScriptedWorker(Script(words=("<think>Hm, well", " now.</think>So."), gate=gate))
    worker.chat_template = "<think>"
    async with open_chat(worker) as chat:
        await chat.send("a?")
        await chat.shows("▸ thinking · 2 words")
        gate.release()
        await chat.is_idle()
        await chat.shows("▸ thought · 3 words")
        assert "Hm, well" not in chat.text()
        await chat.pilot.press("ctrl+up", "enter")
        await chat.shows("Hm, well now.")
        assert said(chat)[1] == "So."


async def test_a_long_question_is_folded_and_shown_whole_on_demand() -> None:
    lines = "\n".join(f"line {number}" for number in range(30))
    async with open_chat(a_worker("A."), size=(80, 60)) as chat:
        await chat.ask(lines)
        await chat.shows("… 18 more lines · enter shows them")
        assert "line 29" not in chat.text()
        await chat.pilot.press("ctrl+up", "up", "enter")
        await chat.shows("line 29")
    assert asked(chat.worker.submits[0]) == [f"user: {lines}"]


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("short", ""),
        ("l\n" * MOST_LINES, ""),
        ("l\n" * (MOST_LINES + 2), "… 2 more lines · enter shows them"),
        ("x" * 1300, "… 100 more letters · enter shows them"),
    ],
)
def test_only_long_texts_are_folded(text: str, rest: str) -> None:
    assert fold(text).rest == rest


async def test_a_long_conversation_is_drawn_from_its_end_and_more_on_demand(path: Path) -> None:
    archive = Archive(path)
    dialogue = Dialogue(archive)
    for number in range(100):
        exchange(dialogue, f"question {number}", f"answer {number}")
    archive.resume_last()
    async with open_chat(a_worker("A."), archive=archive) as chat:
        await chat.shows("answer 99")
        assert len(chat.screen.query(Spoken)) == MOST_AT_ONCE
        await chat.pilot.press(*["pageup"] * 12)
        await chat.until(lambda: len(chat.screen.query(Spoken)) == 2 * MOST_AT_ONCE)
        await chat.ask("more?")
        assert len(chat.screen.query(Spoken)) <= MOST_SHOWN
        assert len(asked(chat.worker.submits[0])) == 201


async def test_an_answer_that_broke_off_with_the_program_is_there_when_it_starts_again(
    path: Path,
) -> None:
    archive = Archive(path)
    dialogue = Dialogue(archive)
    exchange(dialogue, "Tell me.", "Half a st")
    archive.was_broken_off, archive.to_open = True, dialogue.id
    async with open_chat(a_worker(), archive=archive) as chat:
        await chat.shows("Half a st")
        await chat.shows("EdgeKV ended in the middle of this answer")


async def test_what_cannot_be_saved_is_said_and_the_chat_goes_on(path: Path) -> None:
    archive = Archive(path)
    async with open_chat(a_worker("A.", "B."), size=(120, 30), archive=archive) as chat:
        await chat.ask("a?")
        assert "not saved" not in chat.text()
        break_file(path)
        await chat.ask("b?")
        await chat.shows("goes on unsaved; /export")
        await chat.shows("not saved")
        assert said(chat) == ["a?", "A.", "b?", "B."]


async def test_what_was_sent_is_found_with_the_arrow_keys_after_a_restart(path: Path) -> None:
    async with open_chat(a_worker("A."), archive=Archive(path)) as chat:
        await chat.ask("two\nlines")
    async with open_chat(a_worker(), archive=Archive(path)) as chat:
        await chat.pilot.press("up")
        assert chat.prompt.text == "two\nlines"


async def test_an_answer_that_ends_badly_is_kept_with_how_it_ended(path: Path) -> None:
    archive = Archive(path)
    died = EngineDied("The engine process ended.")
    worker = ScriptedWorker(Script(words=("Half",), error=died))
    async with open_chat(worker, archive=archive) as chat:
        await chat.ask("a?")
    (listed,) = archive.history.listed()
    last = archive.history.open(listed.id).entries[-1]
    assert (last.message.content, last.ending) == ("Half", Ending.BROKEN_OFF)


def test_times_are_told_as_people_do() -> None:
    times = [ago_words(s) for s in (0, 59, 60, 7200, 86400 * 400)]
    assert times == ["just now", "just now", "1 minute ago", "2 hours ago", "400 days ago"]


async def test_nothing_that_was_saved_can_drive_the_terminal(path: Path, tmp_path: Path) -> None:
    everything = "\n".join(PAYLOADS)
    archive = Archive(path)
    dialogue = Dialogue(archive)
    dialogue.new(everything)
    exchange(dialogue, everything, everything)
    dialogue.ask(everything)
    dialogue.begin_answer(everything)
    dialogue.grow(AnswerPart("", AnswerStats(), everything, (Called("f", '{"a": "\\u001b]0;x"}'),)))
    dialogue.end_answer(Ending.WHOLE)
    dialogue.rename(everything)
    archive.resume_last()
    hostile = tmp_path / "a\x1b]0;x\x07"
    hostile.write_text("words")
    async with open_chat(a_worker(), size=(100, 120), archive=archive) as chat:
        await chat.pilot.press("ctrl+up", "enter", "ctrl+l")
        await chat.shows("thought")
        await chat.paste(str(hostile))
        assert_only_drawn(chat)
        assert chat.screen.dialogue.entries[1].message.content == everything
