"""The list of conversations: how it is drawn, and what is marked when something goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgekv.history.archive import Archive
from edgekv.history.dialogue import Dialogue
from edgekv.tui.conversation_list import ConversationList
from tests.history.saying import exchange
from tests.tui.fakes import ScriptedWorker
from tests.tui.open_chat import OpenChat, open_chat

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "conversations.sqlite"


def said(chat: OpenChat) -> list[str]:
    return [message.content for message in chat.screen.dialogue.conversation.messages]


async def test_a_name_that_is_too_long_for_the_list_is_cut_and_takes_one_line(path: Path) -> None:
    archive = Archive(path)
    exchange(Dialogue(archive), "How do I turn a list around without making another one", "So.")
    async with open_chat(ScriptedWorker(), archive=archive) as chat:
        await chat.pilot.press("ctrl+l")
        await chat.shows("just now")
        rows = [line.partition("│")[0].strip() for line in chat.text().splitlines()]
        place = rows.index("just now")
        assert rows[place - 1].startswith("How do I turn")
        assert rows[place - 1].endswith("…")


async def test_the_list_stays_open_where_the_open_conversation_is_deleted(path: Path) -> None:
    archive = Archive(path)
    for subject in ("bread", "boats", "birds"):
        exchange(Dialogue(archive), f"About {subject}", "So.")
    async with open_chat(ScriptedWorker(), archive=archive) as chat:
        await chat.pilot.press("ctrl+l", "down", "enter")
        await chat.shows("About boats")
        await chat.pilot.press("ctrl+l", "ctrl+d")
        await chat.shows("Ask anything")
        await chat.until(lambda: rows_of(chat) == ["About birds", "About bread"])
        await chat.pilot.press("ctrl+z")
        await chat.until(lambda: "About boats" in rows_of(chat))
        await chat.pilot.press("enter")
        await chat.until(lambda: said(chat) == ["About boats", "So."])


async def test_what_comes_after_a_deleted_conversation_is_marked_then(path: Path) -> None:
    archive = Archive(path)
    for subject in ("bread", "boats", "birds"):
        exchange(Dialogue(archive), f"About {subject}", "So.")
    async with open_chat(ScriptedWorker(), archive=archive) as chat:
        await chat.pilot.press("ctrl+l", "down", "ctrl+d")
        await chat.until(lambda: rows_of(chat) == ["About birds", "About bread"])
        await chat.pilot.press("enter")
        await chat.until(lambda: said(chat) == ["About bread", "So."])


def rows_of(chat: OpenChat) -> list[str]:
    """The names in the list."""
    return [row.title for row in chat.screen.query_one(ConversationList)._listed]
