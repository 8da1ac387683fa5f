"""docs/troubleshooting.md quotes messages as the program says them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs/troubleshooting.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"^### `(.*)`$", PAGE, re.MULTILINE)
GAP = "…"


@cache
def sources() -> tuple[str, ...]:
    """Every text of the program, with a gap where a value is put in; and those of make."""
    modules = sorted((REPOSITORY / "edgekv").rglob("*.py"))
    texts = [text for path in modules for text in texts_in(path.read_text(encoding="utf-8"))]
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    return (*texts, makefile.replace("$(PYTHON)", GAP))


def texts_in(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.JoinedStr(values=parts):
                yield "".join(str(p.value) if isinstance(p, ast.Constant) else GAP for p in parts)
            case ast.Constant(value=str(text)):
                yield text.replace("%s", GAP)


def test_the_page_quotes_messages_and_each_but_once() -> None:
    assert QUOTED
    assert len(QUOTED) == len(set(QUOTED)) == PAGE.count("\n### ")


@pytest.mark.parametrize("message", QUOTED)
def test_every_message_is_one_that_the_program_says(message: str) -> None:
    assert any(message in text for text in sources())


def test_every_message_is_followed_by_what_helps() -> None:
    texts = re.split(r"^### .*$|^## .*$", PAGE, flags=re.MULTILINE)
    headings = re.findall(r"^### .*$|^## .*$", PAGE, re.MULTILINE)
    told = zip(headings, texts[1:], strict=True)
    assert [one for one, text in told if one.startswith("###") and not text.strip()] == []
