"""Turning the plan's dials: what is planned, refused, applied, and what happens to an answer."""

from __future__ import annotations

import asyncio

import pytest

from edgekv.budget.sizes import Reserve
from edgekv.budget.wish import Wish
from edgekv.errors import ModelError
from edgekv.tui import plan_screen, wishes
from edgekv.tui.dial import AUTO, Dial, Setting
from edgekv.tui.plan_screen import PlanScreen
from tests.tui.fakes import Script
from tests.tui.open_chat import OpenChat, open_chat
from tests.tui.watched import WatchedWorker

pytestmark = pytest.mark.anyio


async def opened(chat: OpenChat) -> PlanScreen:
    await chat.shows("KV used")
    await chat.pilot.press("f4")
    await chat.shows("what to plan for")
    screen = chat.app.screen
    assert isinstance(screen, PlanScreen)
    return screen


async def turned(chat: OpenChat, screen: PlanScreen, *keys: str) -> None:
    """Press keys on the first dial, and plan without waiting for the rest to end."""
    screen.query(Dial).first().focus()
    await chat.pilot.press(*keys)
    screen._plan_now()


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_plan_in_force_is_shown_line_by_line(size: tuple[int, int]) -> None:
    async with open_chat(WatchedWorker(), size) as chat:
        await opened(chat)
        for words in (
            "in force",
            "context     < 8,192 >",
            "slots       < auto: 1 >",
            "KV type     < auto: q8_0 >",
            "on the GPU  < auto: 0 >",
            "94.0 MiB",
            "One row of logits.",
            "256.0 MiB",
            "of 6.0 GiB",
        ):
            assert words in chat.text()


async def test_a_turned_dial_plans_anew_and_apply_opens_the_model_so() -> None:
    worker = WatchedWorker()
    async with open_chat(worker) as chat:
        screen = await opened(chat)
        await turned(chat, screen, "left")
        await chat.shows("-48.0 MiB · ^s applies")
        assert "context     < 4,096 >" in chat.text()
        assert worker.taken == []
        await chat.pilot.press("ctrl+s")
        await chat.shows("in force")
        [draft] = worker.taken
        assert draft.wish == Wish(context_length=4096)
        await chat.pilot.press("f4")
        await chat.shows("4,096 tokens · KV q8_0")
        assert worker.desks[0].is_closed


async def test_a_running_answer_goes_on_while_the_plan_changes() -> None:
    gate = asyncio.Semaphore(1)
    worker = WatchedWorker(Script(words=("One", " two", " three"), gate=gate))
    async with open_chat(worker) as chat:
        await chat.send("Count.")
        screen = await opened(chat)
        await turned(chat, screen, "left")
        await chat.shows("applies")
        await chat.pilot.press("ctrl+s")
        await chat.shows("in force")
        gate.release()
        gate.release()
        await chat.pilot.press("escape")
        await chat.is_idle()
        await chat.shows("One two three")


async def test_what_cannot_be_had_is_refused_in_words_and_cannot_be_applied() -> None:
    worker = WatchedWorker()
    async with open_chat(worker) as chat:
        screen = await opened(chat)
        screen.query(Dial)[1].focus()
        await chat.pilot.press(*["right"] * 16)
        screen._plan_now()
        await chat.shows("Too long; --ctx 16384 would fit.")
        assert "does not fit" in chat.text()
        assert not screen.check_action("apply", ())
        await chat.pilot.press("ctrl+s", "ctrl+z")
        await chat.shows("in force")
        assert "Too long" not in chat.text()
        assert "slots       < auto: 1 >" in chat.text()
        assert worker.taken == []


async def test_an_opening_that_fails_is_told_and_the_plan_stays() -> None:
    worker = WatchedWorker()
    worker.take_error = ModelError("llama.cpp has no room for it; close something.")
    async with open_chat(worker) as chat:
        screen = await opened(chat)
        await turned(chat, screen, "left")
        await chat.shows("applies")
        await chat.pilot.press("ctrl+s")
        await chat.shows("llama.cpp has no room for it; close something.")


async def test_a_plan_made_now_is_not_made_again_over_what_is_said_of_it() -> None:
    async with open_chat(WatchedWorker()) as chat:
        screen = await opened(chat)
        await turned(chat, screen, "left")
        assert screen._timer is None


async def test_a_server_that_tells_nothing_is_said_to() -> None:
    worker = WatchedWorker()
    async with open_chat(worker) as chat:
        await chat.shows("KV used")
        worker.plan = None
        await chat.pilot.press("f4")
        await chat.shows("is not EdgeKV, so it does not tell what it plans")


async def test_many_turns_at_once_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_screen, "SECONDS_AT_REST", 3600.0)
    worker = WatchedWorker()
    async with open_chat(worker) as chat:
        screen = await opened(chat)
        await turned(chat, screen, "left", "left", "left", "right")
        await chat.shows("applies")
        [desk] = worker.desks
        assert [wish.context_length for wish in desk.asked] == [2048]


async def test_a_dial_turns_by_wheel_and_click_and_goes_home_to_auto() -> None:
    async with open_chat(WatchedWorker()) as chat:
        screen = await opened(chat)
        dial = screen.query(Dial).first()
        await chat.pilot.click(dial, offset=(12, 0))
        assert dial.setting == Setting("4,096", 4096)
        await chat.pilot.click(dial, offset=(dial.size.width - 1, 0))
        assert dial.setting.value == 8192
        await chat.pilot.press("home")
        assert dial.setting == AUTO
        await chat.pilot.press("down")
        assert chat.app.focused is screen.query(Dial)[1]


@pytest.mark.parametrize(
    "wish",
    [
        Wish(),
        Wish(context_length=3000, slots=2, gpu_layers=7),
        Wish(kv_type_k="q8_0", kv_type_v="q4_0", memory_bytes=10**9),
        Wish(kv_type_v="q8_0", reserve=Reserve(1), threads=3),
    ],
)
def test_a_wish_survives_its_controls(wish: Wish) -> None:
    values = wishes.values_of(wish)
    assert wishes.wish_of(values, wish) == wish
    assert wishes.wish_of({**values, "slots": 3}, wish).slots == 3


def test_a_size_of_the_pool_that_was_asked_for_is_let_go_once_a_dial_is_turned() -> None:
    wish = Wish(context_length=2048, cells=4096, threads=2)
    values = wishes.values_of(wish)
    assert wishes.wish_of(values, wish).cells == 4096
    turned_wish = wishes.wish_of({**values, "context": 1024}, wish)
    assert turned_wish == Wish(context_length=1024, cells=None, threads=2)


def test_context_steps_end_with_what_the_model_was_trained_on() -> None:
    assert list(wishes.context_steps(8192)) == [512, 1024, 2048, 4096, 8192]
    assert list(wishes.context_steps(3000)) == [512, 1024, 2048, 3000]
    assert list(wishes.context_steps(100)) == [100]
