"""What the engine screen shows, and what it does where there is nothing to show."""

from __future__ import annotations

import pytest
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from edgekv.core.frames import Snapshot
from edgekv.core.look import EngineLook
from edgekv.core.request import RequestId
from edgekv.errors import EngineDied
from edgekv.service.memory_view import MemoryView
from edgekv.service.report import Report
from edgekv.tui import engine_words as words
from edgekv.tui.cell_map import CellMap, stretches
from edgekv.tui.engine_screen import EngineScreen
from tests.tui.open_chat import OpenChat, open_chat
from tests.tui.watched import WatchedWorker, a_busy_look, a_busy_report

pytestmark = pytest.mark.anyio

PROMISED = (
    "ready · 3 running · 2 waiting · 1 suspended",
    "3,749 of 8,192 cells used · 1,024 shared",
    "1 answering 312 after 1,210 tokens · interactive",
    "3 reading  56% of 2,930 tokens",
    "1 free slot",
    "suspended for cells, 2,210 tokens · batch",
    "waiting for a slot, 1,150 tokens",
    "78% of 41,478 prompt tokens reused (2,048 restored)",
    "4 suspensions, 96 tokens computed again",
    "host 9.0 MiB/32.0 MiB · disk 310.0 MiB",
    "214.0 MiB of 256.0 MiB planned",
    "60.0 MiB of 60.0 MiB planned",
)


async def opened(chat: OpenChat) -> None:
    await chat.shows("KV used")
    await chat.pilot.press("f2")
    await chat.shows("running")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_screen_shows_what_runs_what_is_held_and_how_it_flows(
    size: tuple[int, int],
) -> None:
    async with open_chat(WatchedWorker(), size) as chat:
        await opened(chat)
        shown = chat.text()
        for line in PROMISED if size[1] > 30 else PROMISED[:6]:
            assert line in shown
        for _ in range(20):
            await chat.pilot.press("down")
        await chat.shows("60.0 MiB of 60.0 MiB planned")


async def test_every_holder_has_a_mark_of_its_own_and_shared_cells_stand_out() -> None:
    async with open_chat(WatchedWorker(), (120, 40)) as chat:
        await opened(chat)
        strips = chat.app.screen._compositor.render_strips()
        drawn = [s for strip in strips for s in strip if set(s.text) & set("#=123") and s.style]
        shared = next(s for s in drawn if set(s.text) == {"#"} and len(s.text) > 9)
        alone = next(s for s in drawn if set(s.text) == {"1"} and len(s.text) > 9)
        assert shared.style is not None
        assert alone.style is not None
        assert shared.style.bold
        assert not alone.style.bold
        assert shared.style.color != alone.style.color


async def test_requests_of_others_are_told_apart_on_a_shared_engine() -> None:
    worker = WatchedWorker()
    worker.own_requests = {RequestId("request-0")}
    async with open_chat(worker, (120, 40)) as chat:
        await opened(chat)
        assert "answering 312 after 1,210 tokens · interactive · yours" in chat.text()
        assert "answering 57 after 1,180 tokens · another client's" in chat.text()


async def test_the_screen_follows_the_engine_and_outlives_its_death() -> None:
    worker = WatchedWorker(reported=Report())
    async with open_chat(worker, (120, 40)) as chat:
        await opened(chat)
        await chat.shows("0 running · 0 waiting")
        screen = chat.app.screen
        assert isinstance(screen, EngineScreen)
        worker.reported = a_busy_report()
        screen.post_message(EngineScreen.Reported(worker.reported))
        await chat.shows("3 running")
        worker.silence = EngineDied("The engine process ended; send the request again.")
        screen.post_message(EngineScreen.Untold(worker.silence))
        await chat.shows("The engine process ended; send the request again.")


async def test_the_smallest_window_has_the_map_and_the_dials_and_below_it_says_so() -> None:
    async with open_chat(WatchedWorker(), (40, 10)) as chat:
        await chat.pilot.press("f2")
        await chat.shows("ready · 3 running")
        await chat.shows("1 slot 1  # shared")
        await chat.pilot.press("f4")
        await chat.shows("context     < 8,192 >")
        await chat.shows("94.0 MiB")
        await chat.pilot.resize_terminal(39, 9)
        await chat.shows("window too small")


async def test_its_own_key_and_escape_lead_back() -> None:
    async with open_chat(WatchedWorker()) as chat:
        for key in ("f2", "escape"):
            await opened(chat)
            await chat.pilot.press(key)
            await chat.shows("Type a message")
        await opened(chat)
        await chat.pilot.press("f4")
        await chat.shows("what to plan for")
        await chat.pilot.press("escape")
        await chat.shows("Type a message")
        assert len(chat.app.screen_stack) == 1


async def test_the_map_has_a_mark_for_the_smallest_holder_and_none_too_many() -> None:
    async with open_chat(WatchedWorker()) as chat:
        await opened(chat)
        cells = chat.app.screen.query_one(CellMap)
        run = a_busy_look().runs[1]
        tiny = EngineLook(runs=(replace(run, num_cells=1), replace(run, num_cells=8000)))
        cells.parts = tuple(stretches(tiny, 8192))
        width, height = cells.content_size
        drawn = cells.render().plain
        assert len(drawn.replace("\n", "")) == width * height
        assert "1" in drawn


def test_cells_add_up_whatever_is_held() -> None:
    for num_cells in (3749, 8192):
        parts = stretches(a_busy_look(), num_cells)
        assert sum(part.num_cells for part in parts) == num_cells
    assert [part.mark for part in parts] == ["#", "1", "2", "3", "=", "·"]


async def test_what_was_given_up_for_memory_is_told_whole() -> None:
    sentence = "Memory is tight (CPU: 90.0 MiB left beside the plan, 400.0 MiB should be)."
    tight = replace(a_busy_report(), memory=MemoryView(level="tight", steps=("Before.", sentence)))
    async with open_chat(WatchedWorker(reported=tight), (120, 40)) as chat:
        await opened(chat)
        await chat.shows(sentence)
    assert words.memory_words(a_busy_report()) == "enough is left for the plan"


def test_a_sparkline_reaches_from_nothing_to_the_largest_and_fits() -> None:
    assert words.spark((0.0, 1.0, 2.0), 10) == "▁▅█"
    assert words.spark((5.0, 0.0, 2.0), 2) == "▁█"
    assert words.spark((), 10) == words.spark((0.0,), 10) == words.spark((1.0,), 0) == ""


def test_words_for_an_engine_that_has_done_nothing() -> None:
    assert words.reuse_words(Snapshot()) == "no prompt yet"
    assert words.seconds_words(()) == "none yet"
    assert words.seconds_words((0.0312, 1.26)) == "1.3 s, at most 1.3 s"
    assert words.slot_words(Report(), None) == []
    assert words.device_memory(Report()) == []


def test_more_waiting_than_are_told_are_counted() -> None:
    report = a_busy_report()
    many = replace(report, snapshot=replace(report.snapshot, num_waiting=40))
    assert words.slot_words(many, None)[-1] == "… and 38 more that wait"


async def test_it_may_be_left_while_a_report_is_being_drawn() -> None:
    worker = WatchedWorker()
    async with open_chat(worker) as chat:
        for _ in range(3):
            await opened(chat)
            chat.app.screen.post_message(EngineScreen.Reported(worker.reported))
            await checkpoint()
            chat.app.action_view("help")
            await chat.shows("what every key does")
            chat.app.action_view("chat")
            await chat.shows("Type a message")


async def test_the_bars_reach_to_the_border_of_a_window_of_another_size() -> None:
    async with open_chat(WatchedWorker(), (80, 40)) as chat:
        await opened(chat)
        for width in (120, 90):
            await chat.pilot.resize_terminal(width, 40)
            await chat.until(lambda: any(is_full(line) for line in chat.text().splitlines()))


def is_full(line: str) -> bool:
    """A row of bars that ends beside the border of its panel."""
    return "token gap" in line and line.rstrip().endswith(tuple(f"{bar} │" for bar in "▁▂▃▄▅▆▇█"))
