"""The pages show the results that are kept, and what they show is reckoned right."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bench import results, tables
from bench.contestants import contestants
from bench.necessary import Known
from bench.publish import MARKED, PAGE, README, filled, published
from bench.remains import MIB, growth_mib
from bench.suite import ALONE, parsed
from bench.workloads import FULL, SHORT
from edgekv.core.request import Token

LOADS = results.read(results.file_of_this_version())["loads"]


def test_every_page_and_picture_is_as_the_results_of_this_version_have_it() -> None:
    wrong = [
        path.name
        for path, text in published(LOADS).items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    assert wrong == [], "run 'make measured'"


def test_every_load_has_its_place_on_the_page_and_its_short_form() -> None:
    names = [workload.name for workload in FULL]
    assert [workload.name for workload in SHORT] == names
    usual = [workload.name for workload in FULL if workload.servers is contestants]
    assert usual == list(tables.CELLS)
    marked = {found[1] for found in MARKED.findall(PAGE.read_text(encoding="utf-8"))}
    assert marked == {"overview", "restart", *names}
    assert "<!-- measured: overview -->" in README.read_text(encoding="utf-8")


def test_the_page_names_options_that_the_suite_has() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for line in re.findall(r"^    python -m bench.suite (.*)$", page, re.MULTILINE):
        parsed(line.split())
    assert parsed([]).loads == [*(workload.name for workload in FULL), *ALONE]
    with pytest.raises(SystemExit):
        parsed(["no_such_load"])


def test_only_what_stands_between_two_marks_is_replaced() -> None:
    page = "before\n<!-- measured: turns -->\nold\n<!-- end -->\nafter\n"
    assert filled(page, {}) == page.replace("old", "Not measured yet.")


def test_rounds_are_told_as_a_median_with_its_range() -> None:
    rounds: list[dict[str, object]] = [
        {"seconds": 3.0, "errors": ["b"], "finished": 2, "asked": 2},
        {"seconds": 1.0, "errors": [], "finished": 1, "asked": 2},
        {"seconds": 2.0, "errors": ["a", "b"], "finished": 2, "asked": 2},
    ]
    summed: dict[str, Any] = results.summary(rounds)
    assert tables.told(summed["seconds"]) == "2 (1 to 3)"
    assert summed["errors"] == ["a", "b"]
    assert not tables.finished(summed), "one round lost an answer"
    assert tables.cell("fan_out", summed, quiet=True) == "**1 of 2 finished**"


def test_times_are_shown_only_where_nothing_else_computed() -> None:
    one: dict[str, object] = {
        "asked": 2,
        "finished": 2,
        "wall_seconds": 7.5,
        "prompt_tokens_computed": 12,
    }
    summed: dict[str, Any] = results.summary([one])
    assert tables.cell("fan_out", summed, quiet=True) == "7.5 s, 12 tokens computed"
    assert tables.cell("fan_out", summed, quiet=False) == "all finished, 12 tokens computed"


def test_what_no_earlier_prompt_begins_with_is_what_has_to_be_computed() -> None:
    def tokens(text: str) -> list[Token]:
        return [Token(ord(letter)) for letter in text]

    known = Known()
    assert known.add(tokens("system one")) == 10
    assert known.add(tokens("system two")) == 3
    assert known.add(tokens("system two")) == 0
    assert known.add(tokens("other")) == 5


def test_growth_is_the_slope_that_most_pairs_have() -> None:
    steady = [(float(second), 100 * MIB + second * MIB // 100) for second in range(60)]
    assert growth_mib(steady, begin=0) == pytest.approx(6, rel=0.01)
    jumped = [(moment, held + (50 * MIB if moment > 57 else 0)) for moment, held in steady]
    assert growth_mib(jumped, begin=0) == pytest.approx(6, rel=0.1)
    assert growth_mib(steady, begin=100) == 0
