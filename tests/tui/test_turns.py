"""From a question to its answer, and everything that can come between."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from edgekv.core.events import FinishReason
from edgekv.errors import DoesNotFit, EngineDied, PromptTooLong
from edgekv.tui.answer import Answer
from tests.tui.fakes import Script, ScriptedWorker, asked
from tests.tui.open_chat import open_chat

pytestmark = pytest.mark.anyio


def a_gated(*words: str) -> tuple[Script, asyncio.Semaphore]:
    gate = asyncio.Semaphore(0)
    return Script(words=words, gate=gate), gate


async def test_an_answer_appears_with_its_figures() -> None:
    worker = ScriptedWorker(Script(words=("It is", " so."), num_prompt=40, num_reused=31))
    async with open_chat(worker) as chat:
        await chat.ask("Is it?")
        await chat.shows("It is so.")
        assert "Is it?" in chat.text()
        assert "2 tokens · " in chat.text()
        assert "tok/s · first token" in chat.text()
        assert "reused 31 of 40" in chat.text()
        await chat.shows("context 42 of 8,192 tokens")


async def test_a_message_sent_while_the_model_loads_is_answered_when_it_is_ready() -> None:
    loaded = asyncio.Event()
    worker = ScriptedWorker(Script(words=("At last.",)), load_gate=loaded)
    async with open_chat(worker) as chat:
        await chat.shows("loading the weights, 25%")
        await chat.send("Are you there?")
        await chat.shows("waiting for the model")
        assert worker.submits == []
        loaded.set()
        await chat.shows("At last.")
        await chat.shows("KV used")


async def test_a_model_that_cannot_start_ends_the_app_with_its_error() -> None:
    worker = ScriptedWorker()
    worker.load_error = DoesNotFit("It needs 9 GiB; 4 GiB are free.", 9, 4)
    async with open_chat(worker) as chat:
        await chat.until(lambda: chat.app.return_value is not None)
    assert chat.app.return_value is worker.load_error
    assert chat.app.return_code == 1


async def test_the_next_prompt_holds_the_whole_conversation() -> None:
    worker = ScriptedWorker(Script(words=("Two.",)), Script(words=("Four.",)))
    async with open_chat(worker) as chat:
        await chat.ask("1+1?")
        await chat.ask("2+2?")
    assert asked(worker.submits[1]) == ["user: 1+1?", "assistant: Two.", "user: 2+2?"]


async def test_escape_stops_an_answer_and_keeps_what_there_is_of_it() -> None:
    script, gate = a_gated("The beginning", " and the rest")
    worker = ScriptedWorker(script, Script())
    async with open_chat(worker) as chat:
        gate.release()
        await chat.send("Tell me.")
        await chat.shows("The beginning")
        await chat.pilot.press("escape")
        await chat.is_idle()
        assert script.was_closed.is_set()
        await chat.shows("· stopped")
        assert "The beginning" in chat.text()
        await chat.ask("Go on.")
    assert asked(worker.submits[1])[1] == "assistant: The beginning"


async def test_stopping_before_the_first_word_gives_the_message_back() -> None:
    script, _ = a_gated("never")
    async with open_chat(ScriptedWorker(script)) as chat:
        await chat.send("Wait,\nnot that.")
        await chat.until(lambda: bool(chat.worker.submits))
        await chat.pilot.press("escape")
        await chat.is_idle()
        assert chat.prompt.text == "Wait,\nnot that."
        assert chat.screen.dialogue.conversation.messages == ()


async def test_control_c_stops_an_answer_and_pressed_again_quits() -> None:
    script, gate = a_gated("Some", " more")
    async with open_chat(ScriptedWorker(script)) as chat:
        gate.release()
        await chat.send("Tell me.")
        await chat.shows("Some")
        await chat.pilot.press("ctrl+c")
        await chat.is_idle()
        assert chat.app.is_running
        assert "Some" in chat.text()
        await chat.pilot.press("ctrl+c")
        await chat.until(lambda: not chat.app.is_running)
    assert chat.app.return_code == 0


async def test_a_message_sent_during_an_answer_stays_in_the_box() -> None:
    script, gate = a_gated("One", " two")
    async with open_chat(ScriptedWorker(script)) as chat:
        gate.release()
        await chat.send("First.")
        await chat.shows("One")
        await chat.send("Second.")
        await chat.shows("one answer at a time")
        assert chat.prompt.text == "Second."
        gate.release()
        await chat.is_idle()
        assert chat.prompt.text == "Second."
        assert "one answer at a time" not in chat.text()


async def test_a_prompt_that_is_too_long_is_refused_with_both_numbers_and_given_back() -> None:
    worker = ScriptedWorker(
        Script(words=("Fine.",)), Script(words=(), error=PromptTooLong(9000, 8192))
    )
    async with open_chat(worker, size=(120, 40)) as chat:
        await chat.ask("short")
        await chat.ask("long\nlong")
        await chat.shows("9000 tokens")
        assert "8192" in chat.text()
        assert chat.prompt.text == "long\nlong"
        assert [m.content for m in chat.screen.dialogue.conversation.messages] == ["short", "Fine."]


async def test_after_the_engine_died_the_next_message_is_answered() -> None:
    died = EngineDied("The engine process ended.")
    worker = ScriptedWorker(Script(words=("Half an",), error=died), Script(words=("Whole.",)))
    async with open_chat(worker) as chat:
        await chat.ask("First?")
        await chat.shows("The engine process ended.")
        assert "Half an" in chat.text()
        assert "· broken off" in chat.text()
        await chat.ask("Second?")
        await chat.shows("Whole.")


async def test_an_answer_that_fills_the_context_says_so() -> None:
    full = Script(words=("…",), num_prompt=8191, reason=FinishReason.LENGTH)
    async with open_chat(ScriptedWorker(full)) as chat:
        await chat.ask("On and on.")
        await chat.shows("context length of 8,192 tokens")
        assert "/summary goes on" in chat.text()
        await chat.until(lambda: chat.prompt.has_class("-out"))


async def test_the_context_meter_warns_before_the_window_is_full() -> None:
    nearly = Script(words=("…",), num_prompt=6999)
    async with open_chat(ScriptedWorker(nearly)) as chat:
        await chat.ask("On and on.")
        await chat.shows("context 7,000 of 8,192 tokens · 1,192 left")
        assert chat.prompt.has_class("-low")


async def test_asking_again_replaces_the_last_answer() -> None:
    worker = ScriptedWorker(
        Script(words=("Alpha.",)), Script(words=("Bad.",)), Script(words=("Good.",))
    )
    async with open_chat(worker) as chat:
        await chat.ask("One?")
        await chat.ask("Two?")
        await chat.pilot.press("ctrl+r")
        await chat.shows("Good.")
        await chat.is_idle()
        assert "Bad." not in chat.text()
        assert "Alpha." in chat.text()
        assert chat.screen.dialogue.conversation.last_answer == "Good."
    assert asked(worker.submits[2]) == asked(worker.submits[1])


async def test_answers_to_one_question_are_gone_through_with_the_arrow_keys() -> None:
    worker = ScriptedWorker(*(Script(words=(word,)) for word in ("Alpha.", "Beta.", "Gamma.")))
    async with open_chat(worker) as chat:
        await chat.ask("One?")
        assert "of 1" not in chat.text()
        await chat.pilot.press("ctrl+r")
        await chat.shows("◂ 2 of 2 ▸")
        await chat.is_idle()
        await chat.pilot.press("alt+left")
        await chat.shows("Alpha.")
        await chat.shows("◂ 1 of 2 ▸")
        await chat.ask("Two?")
        await chat.pilot.press("ctrl+up", "up", "up", "right")
        await chat.shows("Beta.")
        assert "Two?" not in chat.text()
        await chat.pilot.press("right", "left")
        await chat.shows("Gamma.")
        assert chat.screen.dialogue.conversation.last_answer == "Gamma."
    assert asked(worker.submits[2]) == ["user: One?", "assistant: Alpha.", "user: Two?"]


async def test_a_new_conversation_forgets_the_old_one_even_while_it_is_answered() -> None:
    script, gate = a_gated("Old", " words")
    worker = ScriptedWorker(script, Script(words=("New.",)))
    async with open_chat(worker) as chat:
        gate.release()
        await chat.send("Old?")
        await chat.shows("Old")
        await chat.pilot.press("ctrl+n")
        await chat.until(script.was_closed.is_set)
        await chat.shows("Ask anything.")
        await chat.ask("New?")
        await chat.shows("New.")
        assert "Old" not in chat.text()
    assert asked(worker.submits[1]) == ["user: New?"]


async def test_the_last_answer_is_copied_exactly() -> None:
    async with open_chat(ScriptedWorker(Script(words=("**a** \x1b[2J",)))) as chat:
        await chat.ask("?")
        await chat.pilot.press("ctrl+o")
        assert chat.app.clipboard == "**a** \x1b[2J"


async def test_what_is_shown_is_not_searched_for_garbage_and_what_is_not_leaves_memory() -> None:
    """In a long conversation a search takes longer than a key may."""
    async with open_chat(ScriptedWorker(*(Script(words=("So.",)) for _ in range(3)))) as chat:
        await chat.ask("one")
        await chat.ask("two")
        first = weakref.ref(chat.screen.query(Answer).first())
        assert all(found is not first() for found in gc.get_objects())
        await chat.pilot.press("ctrl+n")
        await chat.until(lambda: not chat.screen.query(Answer))
        await chat.ask("three")
        assert first() is None


async def test_a_short_conversation_begins_at_the_top_in_a_window_of_any_size() -> None:
    async with open_chat(ScriptedWorker(Script()), size=(40, 10)) as chat:
        await chat.ask("Hi")
        for size in ((200, 60), (80, 24)):
            await chat.pilot.resize_terminal(*size)
            await chat.until(lambda: any("Hi" in line for line in chat.text().splitlines()[:4]))


async def test_the_answer_to_a_command_is_gone_to_from_further_up() -> None:
    long = Script(words=tuple(f"Line {number}\n\n" for number in range(60)))
    async with open_chat(ScriptedWorker(long)) as chat:
        await chat.ask("Count.")
        await chat.pilot.press("pageup", "pageup")
        await chat.until(lambda: "Line 59" not in chat.text())
        await chat.send("/attach nowhere.txt")
        await chat.shows("'nowhere.txt' cannot be read")
        await chat.pilot.press("pageup", "pageup")
        await chat.until(lambda: "cannot be read" not in chat.text())
        await chat.pilot.press("ctrl+u")
        await chat.send("/system")
        await chat.shows("The model is told nothing.")
