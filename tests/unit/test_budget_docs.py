"""The examples of docs/memory.md give the numbers that stand there."""

from __future__ import annotations

import doctest

from tests.conftest import REPOSITORY


def test_the_examples_of_the_memory_page_are_right() -> None:
    results = doctest.testfile(str(REPOSITORY / "docs/memory.md"), module_relative=False)
    assert results.failed == 0
    assert results.attempted > 15
