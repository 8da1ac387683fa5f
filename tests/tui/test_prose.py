"""Answers are drawn beside the event loop, each part once, and any words of one can be copied."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from textual import events

from edgekv.tui import prose
from edgekv.tui.conversation_list import ConversationList
from edgekv.tui.prose import Prose
from edgekv.tui.theme import LIGHT
from tests.tui.fakes import Script, ScriptedWorker
from tests.tui.open_chat import OpenChat, open_chat

pytestmark = pytest.mark.anyio

SECONDS_TO_HOLD = 60.0
"""For an event loop that waits for the drawer: then it goes on, and the test fails."""
PARAGRAPH = f"{'Some words of a paragraph. ' * 8}\n\n"
CODE = "```python\nfirst = 1\n```\n\n"


@contextmanager
def busy_drawer() -> Iterator[None]:
    """Nothing is drawn within, and the event loop may not wait for it."""
    gate = threading.Event()
    held = prose._drawer.submit(gate.wait, SECONDS_TO_HOLD)
    try:
        yield
        assert not held.done()
    finally:
        gate.set()


async def sees(chat: OpenChat, letter: str) -> None:
    seen = asyncio.Event()
    chat.prompt.post_message(events.Key(letter, letter))
    chat.prompt.call_later(lambda: chat.screen.call_after_refresh(seen.set))
    await seen.wait()
    assert letter in chat.prompt.text
    assert f"│ {chat.prompt.text}" in chat.text()


async def drag(chat: OpenChat, first: str, last: str) -> None:
    """Select from the first letter of `first` to the last one of `last` with the mouse."""
    rows = chat.text().splitlines()
    start_y, end_y = (next(n for n, row in enumerate(rows) if w in row) for w in (first, last))
    start_x, end_x = rows[start_y].index(first), rows[end_y].index(last) + len(last) - 1
    await chat.pilot.mouse_down(offset=(start_x, start_y))
    await chat.pilot.hover(offset=(end_x, end_y))
    await chat.pilot.mouse_up(offset=(end_x, end_y))


async def test_keys_are_seen_while_an_answer_is_drawn() -> None:
    gate = asyncio.Semaphore(1)
    async with open_chat(ScriptedWorker(Script(words=("Now ", "it ends."), gate=gate))) as chat:
        await chat.send("?")
        await chat.shows("Now")
        with busy_drawer():
            gate.release()
            await sees(chat, "x")
        await chat.shows("Now it ends.")


async def test_keys_are_seen_while_answers_are_fitted_to_another_window() -> None:
    async with open_chat(ScriptedWorker(Script(words=(PARAGRAPH,)))) as chat:
        await chat.ask("?")
        with busy_drawer():
            fitting = asyncio.create_task(chat.pilot.resize_terminal(60, 24))
            await sees(chat, "y")
        await fitting
        await chat.until(lambda: "".join(PARAGRAPH.split()) in "".join(chat.text().split()))


async def test_keys_are_seen_while_a_conversation_is_opened() -> None:
    scripts = [Script(words=(PARAGRAPH,)), Script(words=("Other.",))]
    async with open_chat(ScriptedWorker(*scripts)) as chat:
        await chat.ask("?")
        first = chat.screen.dialogue.id
        await chat.pilot.press("ctrl+n")
        await chat.ask("!")
        with busy_drawer():
            chat.screen.post_message(ConversationList.Opened(first))
            await sees(chat, "z")
        await chat.shows("Some words of a paragraph.")
        shown = chat.screen.query_one(Prose)
        assert chat.screen.talk.transcript.prose_width == shown.content_size.width


async def test_what_is_settled_is_drawn_once_for_a_look() -> None:
    gate = asyncio.Semaphore(9)
    script = Script(words=(PARAGRAPH,) * 20, gate=gate)
    async with open_chat(ScriptedWorker(script)) as chat:
        await chat.send("?")
        await chat.shows("9 tokens")
        first = chat.screen.query_one(Prose)._parts[0]
        lines = first.lines
        assert lines
        for _ in range(11):
            gate.release()  # a scrollbar comes up meanwhile
        await chat.is_idle()
        assert first in chat.screen.query_one(Prose)._parts
        assert first.lines is lines
        chat.app.theme = LIGHT.name
        await chat.until(lambda: first.lines is not lines)


async def test_any_words_of_an_answer_can_be_selected_and_copied() -> None:
    text = "Before the **words** here.\n\n- one 한국어 two\n- three and more"
    async with open_chat(ScriptedWorker(Script(words=(text,)))) as chat:
        await chat.ask("?")
        await drag(chat, "the words", "three")
        await chat.pilot.press("ctrl+c")
        assert chat.app.clipboard == "the words here.\n\n• one 한국어 two\n• three"
        assert chat.app.is_running


async def test_selected_words_look_otherwise_than_those_beside_them() -> None:
    async with open_chat(ScriptedWorker(Script(words=("left middle right",)))) as chat:
        await chat.ask("?")
        await drag(chat, "middle", "middle")
        pieces = {
            segment.text.strip(): segment.style.bgcolor
            for strip in chat.app.screen._compositor.render_strips()
            for segment in strip
            if segment.style
        }
        assert pieces["middle"] != pieces["left"] == pieces["right"]


async def test_a_click_copies_the_code_below_it_in_whichever_part_that_is() -> None:
    text = CODE + PARAGRAPH * 3 + CODE.replace("first", "second") + PARAGRAPH
    gate = asyncio.Semaphore(1)
    script = Script(words=(text, "end"), gate=gate)
    async with open_chat(ScriptedWorker(script), (80, 60)) as chat:
        await chat.send("?")
        await chat.shows("second = 1")
        for is_finished in (False, True):
            if is_finished:
                gate.release()
                await chat.is_idle()
            else:
                assert len(chat.screen.query_one(Prose)._parts) > 1
            for name in ("second", "first"):
                rows = chat.text().splitlines()
                y = next(n for n, row in enumerate(rows) if f"{name} = 1" in row) - 1
                await chat.pilot.click(offset=(rows[y].index("copy"), y))
                assert chat.app.clipboard == f"{name} = 1\n"
