"""The message box."""

from __future__ import annotations

import pytest
from textual import events

from tests.tui.fakes import Script, ScriptedWorker, asked
from tests.tui.open_chat import open_chat

pytestmark = pytest.mark.anyio

LINES = "first line\nsecond line\nthird line"


async def test_a_paste_of_several_lines_sends_nothing_until_enter() -> None:
    async with open_chat(ScriptedWorker(Script())) as chat:
        await chat.paste(LINES)
        assert chat.prompt.text == LINES
        assert chat.worker.submits == []
        await chat.shows("third line")
        await chat.pilot.press("enter")
        await chat.is_idle()
    assert asked(chat.worker.submits[0]) == [f"user: {LINES}"]


@pytest.mark.parametrize("key", ["ctrl+j", "shift+enter", "alt+enter"])
async def test_a_new_line_has_keys_of_its_own(key: str) -> None:
    async with open_chat(ScriptedWorker()) as chat:
        await chat.pilot.press("a", key, "b")
        assert chat.prompt.text == "a\nb"
        assert chat.worker.submits == []


async def test_enter_on_nothing_but_blanks_sends_nothing() -> None:
    async with open_chat(ScriptedWorker()) as chat:
        await chat.send("  \n ")
        await chat.pilot.pause()
        assert chat.worker.submits == []
        assert chat.prompt.text == "  \n "


async def test_what_is_typed_right_behind_enter_is_the_next_message() -> None:
    async with open_chat(ScriptedWorker(Script())) as chat:
        await chat.paste(LINES)
        chat.prompt.action_send()
        for key in "no":
            chat.prompt.post_message(events.Key(key, key))
        await chat.is_idle()
        assert chat.prompt.text == "no"
    assert asked(chat.worker.submits[0]) == [f"user: {LINES}"]


async def test_the_arrow_keys_leave_the_text_at_its_borders_for_earlier_messages() -> None:
    async with open_chat(ScriptedWorker(Script(), Script())) as chat:
        await chat.ask("one")
        await chat.ask("two\nlines")
        await chat.paste("draft")
        await chat.pilot.press("up")
        assert chat.prompt.text == "two\nlines"
        await chat.pilot.press("up")  # from the second line to the first
        assert chat.prompt.text == "two\nlines"
        await chat.pilot.press("up")
        assert chat.prompt.text == "one"
        await chat.pilot.press("up")
        assert chat.prompt.text == "one"
        await chat.pilot.press("down", "down")
        assert chat.prompt.text == "draft"


async def test_a_long_line_that_wraps_is_walked_through_before_history_is() -> None:
    async with open_chat(ScriptedWorker(Script()), size=(50, 20)) as chat:
        await chat.ask("earlier")
        await chat.paste("word " * 20)
        await chat.pilot.press("up")
        assert chat.prompt.text.startswith("word")
        await chat.pilot.press("up", "up", "up")
        assert chat.prompt.text == "earlier"


async def test_pasted_control_characters_can_be_seen_before_they_are_sent() -> None:
    async with open_chat(ScriptedWorker()) as chat:
        await chat.paste("\x1b]52;c;AAAA\x07")
        assert chat.prompt.text == "␛]52;c;AAAA␇"


async def test_thousands_of_pasted_lines_all_arrive() -> None:
    text = "\n".join(f"{number:05} 한국어 👩\u200d👩\u200d👧 [x]" for number in range(5000))
    async with open_chat(ScriptedWorker()) as chat:
        await chat.paste(text)
        assert chat.prompt.text == text
        await chat.shows("04999")


async def test_control_c_copies_what_is_selected_and_only_then_quits() -> None:
    async with open_chat(ScriptedWorker()) as chat:
        await chat.paste("two words")
        await chat.pilot.press("ctrl+shift+left", "ctrl+c")
        assert chat.app.clipboard == "words"
        assert chat.app.is_running
        await chat.pilot.press("ctrl+c")
        await chat.until(lambda: not chat.app.is_running)
