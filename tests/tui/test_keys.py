"""Every key has a name, says what it does, and can be another one."""

from __future__ import annotations

import pytest
from rich.color import Color
from rich.style import Style
from textual.binding import Binding
from textual.theme import Theme

from edgekv.errors import SettingsError
from edgekv.service.conversation import ChatModel
from edgekv.tui.app import ChatApp
from edgekv.tui.keymap import EVERYWHERE, bindings, keymap_of
from edgekv.tui.keys import KEYS
from edgekv.tui.theme import CONTRAST, OWN_THEMES
from tests.tui.fakes import PlainFormat
from tests.tui.open_chat import OpenChat, open_chat
from tests.tui.watched import WatchedWorker

pytestmark = pytest.mark.anyio

ALL = [binding for section in KEYS for binding in bindings(section, {})]


@pytest.mark.parametrize("binding", ALL, ids=lambda binding: binding.id)
def test_every_key_can_be_remapped_and_says_what_it_does(binding: Binding) -> None:
    assert binding.id is not None
    assert binding.tooltip
    assert [other for other in ALL if other.id == binding.id] == [binding]


async def test_a_chosen_key_works_in_place_of_the_usual_one_and_help_shows_it() -> None:
    app = ChatApp(
        ChatModel(WatchedWorker(), PlainFormat), "model", keys={"app.engine": ["f9", "alt+e"]}
    )
    async with app.run_test(size=(100, 60)) as pilot:
        chat = OpenChat(app, pilot, WatchedWorker())
        await chat.shows("KV used")
        await pilot.press("f2")
        await chat.shows("Type a message")
        for key in ("f9", "alt+e"):
            await pilot.press(key)
            await chat.shows("running")
            await pilot.press(key)
            await chat.shows("Type a message")
        await pilot.press("f1")
        await chat.shows("f9, alt+e")


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        ({"app.engin": ["f9"]}, "'app.engin' that is not known; did you mean 'app.engine'"),
        ({"app.engine": ["hyperspace"]}, "the key 'hyperspace', which no terminal sends"),
        ({"app.engine": ["strg+e"]}, "write it like 'ctrl+n'"),
        ({"app.engine": ["f4"]}, "'f4' to both 'app"),
        ({"chat.new": ["f2"]}, "choose another key"),
        ({"app.engine": ["ctrl+e"]}, "which the message box needs for writing"),
        ({"chat.new": ["x"]}, "which the message box needs for writing"),
    ],
)
def test_keys_that_cannot_work_are_refused_in_one_sentence(
    chosen: dict[str, list[str]], sentence: str
) -> None:
    with pytest.raises(SettingsError, match=r"^The settings .*[.?]$") as refused:
        keymap_of(chosen)
    assert sentence in str(refused.value)


def test_two_names_may_change_places() -> None:
    chosen = {"app.engine": ["f4"], "app.plan": ["f2"]}
    assert keymap_of(chosen) == {"app.engine": "f4", "app.plan": "f2"}


async def test_the_help_screen_has_every_key() -> None:
    async with open_chat(WatchedWorker(), (100, 200)) as chat:
        await chat.shows("KV used")
        await chat.pilot.press("f1")
        await chat.shows(EVERYWHERE)
        shown = chat.text()
        assert [b.id for b in ALL if (b.id or "") not in shown] == []
        await chat.pilot.press("f1")
        await chat.shows("Type a message")


def test_a_theme_that_is_not_there_is_refused_with_the_nearest() -> None:
    model = ChatModel(WatchedWorker(), PlainFormat)
    with pytest.raises(SettingsError, match="did you mean 'edgekv-contrast'"):
        ChatApp(model, "model", theme="edgekv-contrasts")
    assert ChatApp(model, "model", theme=CONTRAST.name).theme == CONTRAST.name


@pytest.mark.parametrize("theme", OWN_THEMES, ids=lambda theme: theme.name)
async def test_words_can_be_read_in_every_theme_of_ours(theme: Theme) -> None:
    app = ChatApp(ChatModel(WatchedWorker(), PlainFormat), "model", theme=theme.name)
    least = 7.0 if theme is CONTRAST else 4.5
    async with app.run_test(size=(80, 24)) as pilot:
        chat = OpenChat(app, pilot, WatchedWorker())
        await chat.shows("KV used")
        await pilot.press("f2")
        await chat.shows("running")
        for strip in app.screen._compositor.render_strips():
            for segment in strip:
                if any(c.isalpha() for c in segment.text) and segment.style:
                    assert contrast(segment.style) >= least, segment


def contrast(style: Style) -> float:
    """WCAG 2's contrast ratio of a style's two colours."""
    assert style.color is not None
    assert style.bgcolor is not None
    bright = sorted((luminance(style.color), luminance(style.bgcolor)))
    return (bright[1] + 0.05) / (bright[0] + 0.05)


def luminance(colour: Color) -> float:
    parts = [part / 255 for part in colour.get_truecolor()]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    weighted: float = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return weighted
