"""Formulas are drawn as they were written, and what is none stays Markdown."""

from __future__ import annotations

import pytest
from rich.console import Console

from edgekv.tui.answer import Answer
from edgekv.tui.markdown import StandingMarkdown, code_in, parser
from tests.tui.fakes import Script, ScriptedWorker
from tests.tui.open_chat import open_chat

pytestmark = pytest.mark.anyio

SYSTEM = "\\[\nx_1 * y_1\n+ c\n- d\n= \\{e\\} \\\\\n\\]"


def drawn(text: str) -> str:
    console = Console(width=70)
    with console.capture() as capture:
        console.print(StandingMarkdown(text, "nord"))
    return capture.get()


@pytest.mark.parametrize(
    "formula",
    [
        r"\(O(n_1 * n_2 * n)\)",
        r"\[ \sum_{i=1}^n i \, dx \]",
        r"$a_1 * b_2 * c\_d$",
        r"$$ \{x\} \\ \%y $$",
        r"$x$",
    ],
)
def test_a_formula_in_a_line_keeps_every_character(formula: str) -> None:
    assert f"It is {formula} here." in drawn(f"It *is* {formula} **here**.")
    assert formula in drawn(f"| a |\n|---|\n| {formula} |\n")


@pytest.mark.parametrize("before", ["", "So:\n", "So:\n\n"])
def test_the_lines_of_a_formula_are_no_list_and_no_heading(before: str) -> None:
    lines = [line.rstrip() for line in drawn(f"{before}{SYSTEM}\n*after*").splitlines()]
    start = lines.index("\\[")
    assert lines[start : start + 6] == SYSTEM.split("\n")
    assert lines[-1] == "after"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("from $5 and **up** to $10", "from $5 and up to $10"),
        (r"1 \* 2 \[x", "1 * 2 [x"),
        (r"a \$x and *b*", "a $x and b"),
        ("cost $$ and **b**", "cost $$ and b"),
        ("`\\(x\\)` and `$a$`", r"\(x\) and $a$"),
    ],
)
def test_what_is_no_formula_stays_markdown(text: str, shown: str) -> None:
    assert shown in drawn(text)


def test_a_formula_ends_at_an_empty_line_though_it_was_never_closed() -> None:
    kinds = [token.type for token in parser().parse("\\[\nx_1\n\n# Title\n")]
    assert kinds == [
        "paragraph_open", "inline", "paragraph_close",
        "heading_open", "inline", "heading_close",
    ]  # fmt: skip
    assert code_in(f"{SYSTEM}\n\n```\nx\n```") == ("x\n",)


async def test_a_formula_is_drawn_alike_while_it_is_written_and_afterwards() -> None:
    async with open_chat(ScriptedWorker(Script(words=("So:\n\n", SYSTEM)))) as chat:
        answer = Answer(1)
        await chat.screen.talk.transcript.mount(answer)
        answer.grow(f"So:\n\n{SYSTEM}", "")
        await chat.shows("+ c")
        growing = [line.strip() for line in chat.text().splitlines()]
        await answer.remove()
        await chat.ask("Solve it.")
        standing = [line.strip() for line in chat.text().splitlines()]
        for shown in (growing, standing):
            start = shown.index("\\[")
            assert shown[start : start + 6] == SYSTEM.split("\n")
