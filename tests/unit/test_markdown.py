"""A finished answer as one renderable."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from edgekv.tui.markdown import StandingMarkdown, cut_settled
from edgekv.tui.theme import DARK, extra_variables, markdown_styles

PIECES = (
    "# ",
    "## x\n",
    "text ",
    "**",
    "*",
    "`",
    "```",
    "```python\n",
    "\n",
    "\n\n",
    "- ",
    "  - ",
    "1. ",
    "> ",
    "| a | b |\n",
    "|---|---|\n",
    "| 1 |\n",
    "[x](y)",
    "![x](y)",
    "[![i](j)](k)",
    "<b>",
    "</b>",
    "<!-- c -->",
    "&amp;",
    "&#8238;",
    "---\n",
    "~~s~~",
    "    code\n",
    "한국어",
    "\x1b[2J",
    "\\",
    "http://a.b",
    "[x]: y\n",
    "- [ ] task\n",
)


def drawn(markdown: str, width: int = 60) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False, legacy_windows=False)
    variables = {**DARK.to_color_system().generate(), **extra_variables(DARK)}
    console.push_theme(markdown_styles(variables, is_ansi=False))
    with console.capture() as capture:
        console.print(StandingMarkdown(markdown, "nord"))
    return capture.get()


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25), st.integers(1, 80))
def test_no_answer_however_broken_stops_the_screen(pieces: list[str], width: int) -> None:
    assert "\x1b" not in drawn("".join(pieces), width)


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("# Title", "Title"),
        ("one\ntwo", "one\ntwo"),
        ("- a\n- b", "• a\n• b"),
        ("9. a\n10. b", "  9. a\n 10. b"),
        ("> said", "▌ said"),
        ("<div>kept</div>", "<div>kept</div>"),
        ("a <b>bold</b>", "a <b>bold</b>"),
        ("[words](http://x.y/z)", "words (http://x.y/z)"),
        ("```\n\x1b[2J\n```", f"{'copy':>59}\n  ␛[2J"),
        ("[x]\n\n[x]: y", "[x]\n\n[x]: y"),
        ("&#8238;x &lt; y", "\N{REPLACEMENT CHARACTER}x < y"),
    ],
)
def test_markdown_is_drawn_as_the_model_meant_it(markdown: str, shown: str) -> None:
    lines = [line.rstrip() for line in drawn(markdown).splitlines()]
    assert "\n".join(lines).strip("\n") == shown


def test_code_keeps_every_character() -> None:
    code = "def f():\n\treturn '<b>' + \"&amp;\"\n\n    # end"
    assert [line.strip() for line in drawn(f"```python\n{code}\n```").splitlines()] == [
        "copy",
        "def f():",
        "return '<b>' + \"&amp;\"",
        "",
        "# end",
        "",
    ]


@pytest.mark.parametrize("fence", ["", "```\n", "| a |\n|---|\n| ", "- ", "> "])
def test_a_line_that_is_too_long_for_the_window_goes_on_in_the_next(fence: str) -> None:
    words = "".join(f"word{number}," for number in range(30))
    shown = drawn(fence + words, width=40)
    assert words in "".join(shown.split()).replace("│", "").replace("▌", "")


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25))
def test_a_cut_between_blocks_changes_nothing_on_the_screen(pieces: list[str]) -> None:
    source = "".join(pieces)
    cut = cut_settled(source)
    if not cut.leaves_gap:
        assert cut.settled + cut.rest == source
        parts = [drawn(part).strip("\n") for part in (cut.settled, cut.rest)]
        assert "\n\n".join(filter(None, parts)).split() == drawn(source).split()


@pytest.mark.parametrize(
    ("source", "settled", "rest"),
    [
        ("one\n\ntw", "one\n\n", "tw"),
        ("one", "", "one"),
        ("", "", ""),
        ("- a\n- b\n- c", "- a\n- b\n", "- c"),
        ("8. a\n9. b", "8. a\n", "9. b"),
        ("```py\na = 1\nb = 2\nc", "```py\na = 1\nb = 2\n```", "```py\nc"),
        ("```py\na = 1\n```", "", "```py\na = 1\n```"),
        ("text\n\n```py\na\nb", "text\n\n", "```py\na\nb"),
        ("# [x]: y\n## x\n[x]: y\n", "# [x]: y\n## x\n", "[x]: y\n"),
    ],
)
def test_what_is_settled_ends_before_the_last_block_entry_or_line(
    source: str, settled: str, rest: str
) -> None:
    cut = cut_settled(source)
    assert (cut.settled, cut.rest) == (settled, rest)
