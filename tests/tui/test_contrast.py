"""The theme of high contrast is one on every screen."""

from __future__ import annotations

import pytest
from rich.color_triplet import ColorTriplet

from edgekv.tui.theme import CONTRAST
from tests.tui.fakes import Script, ScriptedWorker
from tests.tui.open_chat import OpenChat, open_chat
from tests.tui.test_drawing import MARKDOWN

pytestmark = pytest.mark.anyio

LEAST_OF_WORDS, LEAST_OF_BARS = 4.5, 3.0
"""Of the Web Content Accessibility Guidelines 2.2, 1.4.3 and 1.4.11."""


def contrast(one: ColorTriplet, other: ColorTriplet) -> float:
    """Between 1 and 21, as those guidelines define it."""

    def luminance(colour: ColorTriplet) -> float:
        parts = (value / 255 for value in colour)
        red, green, blue = (
            v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


def faint(chat: OpenChat) -> list[str]:
    """What of the screen's words and bars is hard to tell from what is behind it."""
    found = []
    for strip in chat.app.screen._compositor.render_strips():
        for text, style, _ in strip:
            is_word, is_bar = any(c.isalnum() for c in text), "━" in text
            if style and style.color and style.bgcolor and (is_word or is_bar):
                colours = style.color.get_truecolor(), style.bgcolor.get_truecolor()
                if contrast(*colours) < (LEAST_OF_WORDS if is_word else LEAST_OF_BARS):
                    found.append(text)
    return found


async def test_every_word_and_bar_stands_out_in_the_theme_of_high_contrast() -> None:
    script = Script(words=(f"{MARKDOWN}\n> said [there](http://a.b)\n\n1. one\n",))
    async with open_chat(ScriptedWorker(script), (100, 45)) as chat:
        chat.app.theme = CONTRAST.name
        await chat.ask("Show me.")
        await chat.shows("A heading")
        assert faint(chat) == []
        for opens, closes in (("ctrl+l", "escape"), ("slash", "backspace")):
            await chat.pilot.press(opens)
            await chat.pilot.pause()
            assert faint(chat) == []
            await chat.pilot.press(closes)
        for screen in ("f1", "f2", "f3", "f4"):
            await chat.pilot.press(screen)
            await chat.pilot.pause()
            assert faint(chat) == []
