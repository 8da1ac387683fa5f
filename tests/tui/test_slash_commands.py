"""Slash commands as they are typed, and what they do."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from edgekv.core.frames import Inspection
from edgekv.core.inspection import CacheView, Difference, Lost, Miss, PromptStart
from edgekv.core.request import RequestId
from edgekv.errors import DoesNotFit
from edgekv.history.archive import Archive
from edgekv.history.dialogue import Dialogue
from edgekv.service.conversation import ChatModel
from edgekv.tui.commands import COMMANDS
from edgekv.tui.turn import SUMMARISE
from edgekv.tui.why_words import why_words
from tests.history.saying import exchange
from tests.tui.fakes import PlainFormat, Script, ScriptedWorker, asked
from tests.tui.open_chat import OpenChat, open_chat

pytestmark = pytest.mark.anyio


class InspectedWorker(ScriptedWorker):
    """Remembers the last start."""

    miss: Miss | None = None

    def __init__(self, *scripts: Script) -> None:
        super().__init__(*scripts)
        self.inspect = self._remember

    async def _remember(self) -> Inspection:
        start = PromptStart(self.submits[-1].request_id, 40, 31, 0, self.miss)
        return Inspection(1, 8192, CacheView((), (), ""), (start,))


def a_worker(*answers: str) -> InspectedWorker:
    return InspectedWorker(*(Script(words=(answer,)) for answer in answers))


def said(chat: OpenChat) -> list[str]:
    return [message.content for message in chat.screen.dialogue.conversation.messages]


async def test_every_command_does_something() -> None:
    async with open_chat(a_worker()) as chat:
        assert set(chat.screen.commands.actions) == {command.name for command in COMMANDS}


async def test_a_command_is_completed_and_carried_out_by_enter_and_chosen_by_arrows() -> None:
    async with open_chat(a_worker(), size=(100, 50)) as chat:
        await chat.pilot.press(*"/hel")
        await chat.shows("List all commands")
        await chat.pilot.press("enter")
        await chat.shows("F1 shows what every key does.")
        assert chat.prompt.text == ""
        await chat.pilot.press(*"/e", "down", "tab")
        assert chat.prompt.text == "/export "
        await chat.pilot.press("escape", *"x")
        assert chat.prompt.text == "/export x"
        assert chat.worker.submits == []


async def test_tab_completes_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.md").write_text("Only this.", encoding="utf-8")
    async with open_chat(a_worker()) as chat:
        await chat.paste("/attach n")
        await chat.pilot.press("tab", "enter")
        await chat.shows("with notes.md (1 line)")


async def test_an_unknown_command_stays_in_the_box_under_the_nearest_that_there_is() -> None:
    async with open_chat(a_worker()) as chat:
        await chat.send("/modle")
        await chat.shows("did you mean")
        assert chat.prompt.text == "/modle"
        assert chat.worker.submits == []


async def test_a_path_at_the_start_of_a_message_is_no_command() -> None:
    async with open_chat(a_worker("A file.")) as chat:
        await chat.ask("/etc/hosts is what?")
        assert asked(chat.worker.submits[0]) == ["user: /etc/hosts is what?"]


async def test_a_command_that_would_change_an_answer_under_way_waits() -> None:
    gate = asyncio.Semaphore(1)
    async with open_chat(InspectedWorker(Script(words=("One", " two"), gate=gate))) as chat:
        await chat.send("a?")
        await chat.shows("One")
        await chat.send("/drop")
        await chat.shows("has to wait for the answer")
        gate.release()
        await chat.is_idle()


async def test_a_system_text_is_told_before_all_else_and_kept_for_new_conversations() -> None:
    async with open_chat(a_worker("A.", "B.", "C.")) as chat:
        await chat.send("/system Be brief.")
        await chat.shows("the model is told: Be brief.")
        await chat.ask("a?")
        await chat.pilot.press("ctrl+n")
        await chat.ask("b?")
        await chat.send("/system clear")
        await chat.shows("The model is told nothing.")
        await chat.ask("c?")
    assert asked(chat.worker.submits[0]) == ["system: Be brief.", "user: a?"]
    assert asked(chat.worker.submits[1]) == ["system: Be brief.", "user: b?"]
    assert asked(chat.worker.submits[2]) == ["user: b?", "assistant: B.", "user: c?"]


async def test_the_oldest_turns_are_dropped_in_a_conversation_that_says_so(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "c.sqlite")
    async with open_chat(a_worker("A.", "B.", "C."), archive=archive) as chat:
        await chat.send("/drop")
        await chat.shows("but one turn")
        chat.prompt.clear()
        await chat.ask("a?")
        await chat.ask("b?")
        await chat.send("/drop")
        await chat.shows("goes on without the oldest 1 turns")
        assert said(chat) == ["b?", "B."]
        await chat.shows("context 4 of 8,192 tokens")
        assert len(archive.history.listed()) == 2


async def test_a_summary_begins_a_new_conversation(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "c.sqlite")
    async with open_chat(a_worker("A.", "In short: A."), archive=archive) as chat:
        await chat.ask("a?")
        await chat.send("/summary")
        await chat.shows("begins with the summary")
        assert said(chat) == [SUMMARISE, "In short: A."]
        assert asked(chat.worker.submits[1])[:2] == ["user: a?", "assistant: A."]
        assert len(archive.history.listed()) == 2


async def test_the_conversation_is_written_to_files_and_never_over_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_chat(a_worker("\x1b[2J**A**"), size=(120, 40)) as chat:
        await chat.send("/export x.md")
        await chat.shows("Nothing was said yet.")
        chat.prompt.clear()
        await chat.ask("What? is/that")
        await chat.send("/export")
        await chat.shows("Wrote ")
        await chat.send("/export")
        await chat.shows("exists already")
        chat.prompt.clear()
        await chat.send("/export all.json")
        await chat.until((tmp_path / "all.json").exists)
        chat.prompt.clear()
        await chat.send("/export all.txt")
        await chat.shows("should end in .md or .json")
    assert "␛[2J**A**" in (tmp_path / "What-is-that.md").read_text()
    document = json.loads((tmp_path / "all.json").read_text())
    assert document["conversations"][0]["messages"][1]["content"] == "\x1b[2J**A**"


async def test_conversations_are_imported_into_the_list(tmp_path: Path) -> None:
    export = tmp_path / "export.json"
    messages = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Me."}]
    export.write_text(
        json.dumps(
            {
                "format": "edgekv-conversations",
                "version": 1,
                "conversations": [{"title": "Theirs", "messages": messages}],
            }
        )
    )
    archive = Archive(tmp_path / "c.sqlite")
    async with open_chat(a_worker(), archive=archive) as chat:
        await chat.send(f"/import {export}")
        await chat.shows("Imported 1 conversation")
        assert [listed.title for listed in archive.history.listed()] == ["Theirs"]


async def test_a_file_goes_with_the_next_message_and_can_be_taken_back(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("one\ntwo\n")
    async with open_chat(a_worker("A.", "B."), size=(120, 40)) as chat:
        await chat.shows("KV used")
        await chat.send(f"/attach {notes}")
        await chat.shows("with notes.txt (2 lines)")
        await chat.send("/detach")
        await chat.until(lambda: "notes.txt (2" not in chat.text())
        await chat.paste(str(notes))  # what a terminal does with a file dropped on it
        await chat.shows("with notes.txt (2 lines)")
        assert chat.prompt.text == ""
        await chat.ask("Sum?")
        await chat.ask("Again?")
        await chat.paste(str(tmp_path))
        assert chat.prompt.text == str(tmp_path)
    assert asked(chat.worker.submits[0]) == ["user: notes.txt:\n```\none\ntwo\n```\n\nSum?"]
    assert asked(chat.worker.submits[1])[-1] == "user: Again?"


async def test_a_file_without_room_is_refused_with_both_numbers(tmp_path: Path) -> None:
    large = tmp_path / "large.txt"
    large.write_text("word " * 9000)
    async with open_chat(a_worker(), size=(120, 40)) as chat:
        await chat.shows("KV used")
        await chat.send(f"/attach {large}")
        await chat.shows("9,000 tokens")
        assert "8,192" in chat.text()


async def test_why_tells_what_was_reused_and_why_not_all() -> None:
    worker = a_worker("A.")
    worker.miss = Miss(Difference(31, (), (), "the red", "the blue"))
    async with open_chat(worker, size=(120, 30)) as chat:
        await chat.ask("a?")
        await chat.send("/why")
        await chat.shows("31 of 40 prompt tokens were reused; 9 were computed.")
        await chat.shows("before “the blue”")


def a_start(num_reused: int, num_restored: int, miss: Miss | None) -> PromptStart:
    return PromptStart(RequestId("r"), 40, num_reused, num_restored, miss)


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (a_start(31, 5, Miss(lost=Lost(9, "They were evicted."))), "had cells once. They were"),
        (a_start(31, 5, None), "5 of them from the store"),
        (a_start(39, 0, None), "Nothing was computed twice"),
        (a_start(0, 0, Miss()), "Nothing that begins like it was there."),
        (None, "Nothing was asked yet"),
    ],
)
def test_why_has_a_sentence_for_every_reason(start: PromptStart | None, words: str) -> None:
    assert words in why_words(start)


async def test_another_model_goes_on_with_the_same_conversation(
    starter_model: Path,
) -> None:
    other = a_worker("B.")
    async with open_chat(
        a_worker("A."), open_model=lambda _: ChatModel(other, PlainFormat), size=(120, 30)
    ) as chat:
        await chat.ask("a?")
        await chat.send(f"/model {starter_model}")
        await chat.shows("The model is SmolLM2-135M-Instruct.Q4_1")
        await chat.ask("b?")
        assert said(chat) == ["a?", "A.", "b?", "B."]
    assert asked(other.submits[0]) == ["user: a?", "assistant: A.", "user: b?"]


async def test_a_model_that_cannot_be_opened_leaves_the_first_in_place(
    starter_model: Path,
) -> None:
    large = a_worker()
    large.load_error = DoesNotFit("It needs 9 GiB; 4 GiB are free.", 9, 4)
    async with open_chat(
        a_worker("A."), open_model=lambda _: ChatModel(large, PlainFormat), size=(120, 30)
    ) as chat:
        await chat.shows("KV used")
        await chat.send(f"/model {starter_model}")
        await chat.shows("It needs 9 GiB; 4 GiB are free.")
        chat.prompt.clear()
        await chat.ask("a?")
        assert said(chat) == ["a?", "A."]


async def test_a_context_that_fills_up_is_warned_of_once_with_the_ways_on() -> None:
    nearly = Script(words=("…",), num_prompt=6999)
    async with open_chat(ScriptedWorker(nearly, nearly), size=(120, 40)) as chat:
        await chat.ask("On.")
        await chat.shows("may grow by 1,192 more tokens")
        await chat.shows("/summary goes on in a new conversation")
        await chat.ask("And on.")
        assert chat.text().count("may grow by") == 1


async def test_a_conversation_is_named_saved_and_deleted_by_commands(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "c.sqlite")
    exchange(Dialogue(archive), "Other", "…")
    async with open_chat(a_worker("A."), archive=archive, size=(120, 40)) as chat:
        await chat.ask("a?")
        await chat.send("/rename Lights")
        await chat.shows("now called “Lights”")
        await chat.send("/save")
        await chat.shows("“Lights” is saved as it grows, in")
        await chat.send("/delete")
        await chat.shows("/undo brings it back")
        assert [listed.title for listed in archive.history.listed()] == ["Other"]
        await chat.send("/undo")
        await chat.until(lambda: said(chat) == ["a?", "A."])
