"""What text becomes on its way to the screen."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgekv.tui.visible import typeable, visible

PAYLOADS = {
    "write to the clipboard": ("\x1b]52;c;ZWNobyBwd25lZA==\x07", "␛]52;c;ZWNobyBwd25lZA==␇"),
    "rename the window": ("\x1b]0;gotcha\x07", "␛]0;gotcha␇"),
    "clear the screen": ("\x1b[2J\x1b[H", "␛[2J␛[H"),
    "start a sequence with one C1 byte": ("\x9b31mred", "\N{REPLACEMENT CHARACTER}31mred"),
    "never end a sequence": ("\x1b]52;c;AAAA", "␛]52;c;AAAA"),
    "reset the terminal": ("\x1bc", "␛c"),
    "write over what was there": ("ok\b\bNO", "ok␈␈NO"),
    "go back to the line's start": ("safe\rEVIL", "safeEVIL"),
    "turn the writing direction": ("abc\u202etxt.exe", "abc\N{REPLACEMENT CHARACTER}txt.exe"),
    "be a file name that is not UTF-8": ("a\udcffb", "a\N{REPLACEMENT CHARACTER}b"),
}


@pytest.mark.parametrize(("text", "shown"), PAYLOADS.values(), ids=PAYLOADS)
def test_a_text_that_tries_to_do_something_is_only_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_ordinary_text_in_any_language_stays_as_it_is() -> None:
    text = "Grüße, 한국어 漢字 שלום हिन्दी 😀 [x] `code`\n\tindented"
    assert visible(text) == text == typeable(text)


def test_joined_emoji_are_drawn_apart_because_terminals_disagree_about_their_width() -> None:
    assert visible("👩\u200d👩\u200d👧 ❤\ufe0f 👍🏽") == "👩👩👧 ❤ 👍"


def test_the_message_box_keeps_joined_emoji_because_its_text_is_what_is_sent() -> None:
    assert typeable("👩\u200d👩\u200d👧 ❤\ufe0f 👍🏽") == "👩\u200d👩\u200d👧 ❤\ufe0f 👍🏽"


def test_the_message_box_takes_every_kind_of_line_end() -> None:
    assert typeable("a\r\nb\rc\nd") == "a\nb\nc\nd"


@settings(deadline=None)
@given(st.text(st.characters(codec=None)))
def test_no_control_character_but_line_feed_and_tab_is_ever_left(text: str) -> None:
    for shown in (visible(text), typeable(text)):
        left = {c for c in shown if unicodedata.category(c) in {"Cc", "Cs"}}
        assert left <= {"\n", "\t"}


@settings(deadline=None)
@given(st.text(), st.text())
def test_a_text_may_be_cut_anywhere_while_it_streams(first: str, second: str) -> None:
    assert visible(first) + visible(second) == visible(first + second)
