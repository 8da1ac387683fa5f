"""The models screen: verdicts read, models got, stopped, deleted and opened."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.widgets import DataTable

from edgekv.errors import HubError, Unavailable
from edgekv.models.transfer import Progress
from edgekv.models.verdicts import Outcome, Verdict
from edgekv.service.conversation import ChatModel
from edgekv.tui.app import ChatApp
from edgekv.tui.model_words import mark, progress_words
from edgekv.tui.models_screen import ModelsScreen
from tests.tui.fakes import PlainFormat, a_plan
from tests.tui.open_chat import OpenChat
from tests.tui.shelf import PaperSupply, a_local, verdicts
from tests.tui.watched import WatchedWorker

pytestmark = pytest.mark.anyio


class Open:
    def __init__(self, chat: OpenChat, supply: PaperSupply, opened: list[Path]) -> None:
        self.chat, self.supply, self.opened = chat, supply, opened
        self.shows, self.pilot = chat.shows, chat.pilot

    async def choose(self, name: str) -> None:
        names = [verdict.name for verdict in self.supply.shown]
        self.chat.app.screen.query_one(DataTable).move_cursor(row=names.index(name))
        await self.shows(f"{name} ·")


@pytest.fixture(params=[(80, 24), (120, 40)], ids=str)
async def screen(request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    supply, opened = PaperSupply(), list[Path]()
    app = ChatApp(ChatModel(WatchedWorker(), PlainFormat), "model")
    async with app.run_test(size=request.param) as pilot:
        app._views["models"] = lambda: ModelsScreen(supply, opened.append)
        chat = OpenChat(app, pilot, WatchedWorker())
        await chat.shows("KV used")
        await pilot.press("f3")
        await chat.shows("5 known · 3 fit · 2 on this disk")
        yield Open(chat, supply, opened)


async def test_every_model_is_shown_with_what_this_machine_makes_of_it(screen: Open) -> None:
    for words in ("● starter", "94.0 MiB", "8,192", "<= 210", "○ small", "<= 9.5", "✕ huge"):
        assert " ".join(words.split()) in " ".join(screen.chat.text().split())
    await screen.choose("huge")
    await screen.shows("It needs 42.0 GiB; 6.0 GiB may be used.")
    assert screen.chat.app.screen.check_action("get", ()) is False


async def test_a_model_is_got_with_progress_and_can_be_stopped(screen: Open) -> None:
    await screen.choose("small")
    await screen.pilot.press("g")
    screen.supply.gate.release()
    await screen.shows("getting small: 25%, 200.0 MiB of 800.0 MiB")
    assert screen.chat.app.screen.check_action("get", ()) is False
    await screen.pilot.press("x")
    await screen.shows("small stopped; getting it again goes on from there")
    await screen.pilot.press("g")
    for _ in range(4):
        screen.supply.gate.release()
    await screen.shows("small is here")
    assert screen.supply.got == ["small", "small"]


async def test_what_cannot_be_got_or_deleted_is_said(screen: Open) -> None:
    screen.supply.error = HubError("The hub wants you to log in; set HF_TOKEN.")
    await screen.choose("unknown")
    await screen.pilot.press("enter")
    screen.supply.gate.release()
    await screen.shows("The hub wants you to log in; set HF_TOKEN.")
    screen.supply.error = Unavailable("The disk is read-only.")
    await screen.choose("starter")
    await screen.pilot.press("d", "d")
    await screen.shows("The disk is read-only.")


async def test_deleting_takes_the_key_twice_on_the_same_model_and_only_ours_can_be(
    screen: Open,
) -> None:
    await screen.choose("starter")
    await screen.pilot.press("d")
    await screen.shows("the key once more deletes /models/starter.gguf, 94.0 MiB")
    await screen.choose("small")
    await screen.choose("starter")
    await screen.pilot.press("d")
    await screen.shows("the key once more deletes")
    assert screen.supply.removed == []
    await screen.pilot.press("d")
    await screen.shows("starter is deleted")
    assert screen.supply.removed == ["starter"]
    await screen.choose("theirs")
    assert screen.chat.app.screen.check_action("delete", ()) is False


async def test_enter_goes_on_with_a_model_that_is_here(screen: Open) -> None:
    await screen.choose("theirs")
    await screen.pilot.press("enter")
    await screen.chat.until(lambda: screen.opened == [Path("/models/theirs.gguf")])


async def test_what_is_here_is_listed_while_this_machine_is_looked_at(screen: Open) -> None:
    await screen.pilot.press("f3")
    screen.supply.may_judge.clear()
    await screen.pilot.press("f3")
    await screen.shows("starter")
    assert "looking at this machine" in screen.chat.text()
    assert screen.chat.app.screen.check_action("use", ()) is False
    screen.supply.may_judge.set()
    await screen.shows("5 known · 3 fit · 2 on this disk")


async def test_the_footer_tells_what_enter_does(screen: Open) -> None:
    await screen.choose("starter")
    await screen.shows("⏎ Use")
    await screen.choose("huge")
    await screen.chat.until(lambda: "⏎ Use" not in screen.chat.text())


async def test_a_hostile_name_is_only_drawn(screen: Open) -> None:
    local = a_local("\x1b]0;x\x07")
    verdict = Verdict("\x1b[2J", None, None, local, None, Outcome(a_plan("x")))
    screen.supply.shown = (verdict,)
    screen.chat.app.screen.post_message(ModelsScreen.Judged((verdict,)))
    await screen.shows("␛[2J")
    await screen.shows("/models/␛]0;x␇.gguf")
    await screen.shows("would take 256.0 MiB")


async def test_what_was_judged_last_is_there_at_once(screen: Open) -> None:
    screen.supply.last, screen.supply.shown = screen.supply.shown[:1], ()
    await screen.pilot.press("f3")
    await screen.pilot.press("f3")
    await screen.shows("starter")


def test_marks_and_progress_in_words() -> None:
    assert [mark(verdict) for verdict in verdicts()] == ["●", "●", "○", "?", "✕"]
    assert progress_words("m", Progress(1, 4, is_checking=True)) == "checking m: 25%, 1 B of 4 B"
