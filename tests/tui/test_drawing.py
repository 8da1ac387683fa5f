"""What may be on the screen, and what the screen looks like."""

from __future__ import annotations

import asyncio
import unicodedata

import pytest
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from edgekv.errors import InvalidValue
from edgekv.tui.answer import Answer
from edgekv.tui.theme import LIGHT
from tests.tui.fakes import Script, ScriptedWorker
from tests.tui.open_chat import OpenChat, open_chat

pytestmark = pytest.mark.anyio

PAYLOADS = (
    "\x1b]52;c;ZWNobyBwd25lZA==\x07",
    "\x1b]0;gotcha\x07",
    "\x1b]8;;http://example.com\x07click\x1b]8;;\x07",
    "\x1b[2J\x1b[H",
    "\x9b31mred",
    "\x9d52;c;ZQ==\x9c",
    "\x1bP+q544e\x1b\\",
    "\x1b]52;c;AAAA",
    "ok\b\bNO",
    "safe\rEVIL",
    "abc\u202etxt.exe",
    "&#13; &#8238; [b]markup[/b]",
    "```\x1b[2J\n\x1b]0;in code\x07\n```",
    "[link](http://a/\x1b]52;c;x\x07) | `\x1b[6n`",
)

MARKDOWN = """\
# A heading

Some **bold** `code`, <b>html</b> and a line
that ends where the model ended it.

- one
- two

```python
def f(x):
    return x
```

| a | b |
|---|---|
| 1 | 2 |
"""


def characters_a_terminal_acts_on(text: str) -> set[str]:
    return {
        c
        for c in text
        if c != "\n" and (unicodedata.category(c) == "Cc" or "\u202a" <= c <= "\u202e")
    }


def assert_only_drawn(chat: OpenChat) -> None:
    assert characters_a_terminal_acts_on(chat.text()) == set()


@pytest.mark.parametrize("payload", PAYLOADS, ids=ascii)
async def test_no_text_from_anywhere_can_drive_the_terminal(payload: str) -> None:
    script = Script(words=(payload[:3], payload[3:]))
    failing = Script(words=(), error=InvalidValue("messages", payload))
    worker = ScriptedWorker(script, failing)
    worker.name = payload
    async with open_chat(worker, model_name=payload) as chat:
        assert_only_drawn(chat)
        await chat.ask(payload)
        assert_only_drawn(chat)
        await chat.ask("?")
        assert_only_drawn(chat)
        assert chat.screen.dialogue.conversation.last_answer == payload


async def test_an_answer_that_is_still_growing_cannot_drive_the_terminal_either() -> None:
    gate = asyncio.Semaphore(1)
    script = Script(words=("Now: \x1b]0;x\x07 &#8238;\n```\n\x1b[2J", " more"), gate=gate)
    async with open_chat(ScriptedWorker(script)) as chat:
        await chat.send("?")
        await chat.shows("Now: ␛]0;x␇")
        await chat.shows("␛[2J")
        assert_only_drawn(chat)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_screen_holds_everything_it_promises(size: tuple[int, int]) -> None:
    async with open_chat(ScriptedWorker(Script(words=(MARKDOWN,))), size, "SmolLM2-135M") as chat:
        await chat.ask("Show me.")
        for words in (
            "EdgeKV",
            "SmolLM2-135M",
            "8,192 tokens · KV q8_0",
            "weights 94M",
            "compute 66M",
            "KV used 9M",
            "shared 3M",
            "free 84M",
            "context 41 of 8,192 tokens",
            "1 token · ",
            "^j New line",
            "^q Quit",
        ):
            await chat.shows(words)
        assert chat.app.export_screenshot().startswith("<svg")


async def test_a_finished_answer_is_drawn_whole_and_as_one_widget() -> None:
    async with open_chat(ScriptedWorker(Script(words=(MARKDOWN,))), (100, 50)) as chat:
        await chat.ask("Show me.")
        shown = chat.text()
        for words in ("A heading", "bold", "<b>html</b>", "• two", "return x", "│ 1 │ 2 │"):
            assert words in shown
        line = next(row for row in shown.splitlines() if "and a line" in row)
        assert "that ends" not in line
        answer = chat.screen.query_one(Answer)
        assert len(answer.walk_children()) == 2  # the text and its figures


@pytest.mark.parametrize("block", ["A paragraph of text.\n\n", f"- {'an entry ' * 9}\n"])
async def test_an_answer_has_the_same_few_widgets_however_long_it_grows(block: str) -> None:
    gate = asyncio.Semaphore(300)
    script = Script(words=(block,) * 301, gate=gate)
    async with open_chat(ScriptedWorker(script)) as chat:
        await chat.send("?")
        await chat.shows("300 tokens")
        growing = len(chat.screen.query_one(Answer).walk_children())
        gate.release()
        await chat.is_idle()
        assert len(chat.screen.query_one(Answer).walk_children()) < growing < 10


async def test_a_window_that_is_too_small_says_so_and_comes_back_with_everything() -> None:
    async with open_chat(ScriptedWorker(Script(words=("All here.",)))) as chat:
        await chat.ask("Where?")
        for size in ((39, 24), (80, 9), (1, 1), (10, 3)):
            await chat.pilot.resize_terminal(*size)
            await chat.pilot.pause()
            assert "All here." not in chat.text()
        await chat.pilot.resize_terminal(39, 9)
        await chat.shows("window too small")
        await chat.pilot.resize_terminal(40, 10)
        await chat.shows("All here.")
        assert "window too small" not in chat.text()
        await chat.pilot.press("x")
        assert chat.prompt.text == "x"


@pytest.mark.parametrize(
    ("opens", "closes"),
    [("x", "backspace"), ("f1", "f1"), ("f2", "f2"), ("f4", "escape"), ("ctrl+p", "escape")],
)
async def test_the_window_may_have_any_size_at_any_time(opens: str, closes: str) -> None:
    wide = "한국어 👩\u200d👩\u200d👧 " * 9
    async with open_chat(ScriptedWorker(Script(words=(MARKDOWN + wide,)))) as chat:
        await chat.ask(wide)
        await chat.pilot.press(opens)
        sizes = [(width, 24) for width in (*range(1, 13), 20, 39, 40, 77, 78)]
        sizes += [(80, height) for height in (1, 2, 3, 5, 9, 10, 15, 16, 60)]
        for width, height in sizes:
            await chat.pilot.resize_terminal(width, height)
            assert chat.app.is_running
        await chat.pilot.resize_terminal(80, 24)
        await chat.pilot.press(closes)
        await chat.shows("1 token")


async def test_wide_characters_leave_the_frame_straight() -> None:
    wide = "한국어 漢字 👩\u200d👩\u200d👧 ❤\ufe0f 👍🏽 " * 6
    async with open_chat(ScriptedWorker(Script(words=(wide,)))) as chat:
        await chat.ask(wide)
        strips = chat.app.screen._compositor.render_strips()
        assert {strip.cell_length for strip in strips} == {80}
        assert "👩👩👧 ❤ 👍" in chat.text()


async def test_without_colour_the_parts_of_the_memory_bar_have_patterns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_chat(ScriptedWorker()) as chat:
        await chat.shows("█ weights 94M")
        await chat.shows("░ free 84M")
        assert chat.app.native_ansi_color


@pytest.mark.parametrize("theme", [LIGHT, BUILTIN_THEMES["ansi-light"]])
async def test_a_finished_answer_takes_on_another_theme(theme: Theme) -> None:
    async with open_chat(ScriptedWorker(Script(words=(MARKDOWN,))), (80, 50)) as chat:
        await chat.ask("Before.")
        keyword = chat.colour_of("return")
        chat.app.theme = theme.name
        primary = Color.parse(theme.primary).rich_color
        await chat.until(lambda: chat.colour_of("A heading") == primary)
        assert chat.colour_of("return") != keyword


async def test_the_palette_offers_what_can_be_done_now() -> None:
    async with open_chat(ScriptedWorker(Script(words=("Yes.",))), (80, 40)) as chat:
        await chat.shows("KV used")
        await chat.pilot.press("ctrl+p")
        await chat.shows("Memory plan")
        assert "Ask again" not in chat.text()
        await chat.pilot.press("escape")
        await chat.ask("?")
        await chat.pilot.press("ctrl+p")
        await chat.shows("Ask again")
