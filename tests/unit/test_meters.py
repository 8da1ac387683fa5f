"""Figures: the memory bar's parts, the context meter and an answer's line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgekv.core.events import FinishReason
from edgekv.core.frames import Snapshot
from edgekv.errors import PromptTooLong
from edgekv.history.entries import Ending
from edgekv.service.conversation import AnswerStats
from edgekv.service.states import LoadStep, State
from edgekv.tui.input_history import InputHistory
from edgekv.tui.meters import memory_parts, short_size, split_cells
from edgekv.tui.words import (
    ending_words,
    load_words,
    notice_words,
    read_context,
    stats_words,
)
from tests.tui.fakes import MIB, a_plan


def test_the_parts_of_the_memory_bar_add_up_to_the_plan() -> None:
    plan = a_plan("m")
    parts = memory_parts(plan, Snapshot(num_cells=8192, cells_used=1024, cells_shared=256))
    assert {part.name: part.num_bytes for part in parts} == {
        "weights": 94 * MIB,
        "compute": 66 * MIB,
        "KV used": 9 * MIB,
        "shared": 3 * MIB,
        "free": 84 * MIB,
    }
    assert sum(part.num_bytes for part in parts) == plan.total_bytes


def test_before_the_first_step_all_cells_are_free() -> None:
    parts = {part.name: part.num_bytes for part in memory_parts(a_plan("m"), Snapshot())}
    assert (parts["KV used"], parts["shared"], parts["free"]) == (0, 0, 96 * MIB)


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=6), st.integers(6, 400))
def test_a_bar_is_as_wide_as_it_should_be_and_hides_nothing(sizes: list[int], width: int) -> None:
    cells = split_cells(sizes, width)
    assert sum(cells) == (width if any(sizes) else 0)
    assert [count > 0 for count in cells] == [size > 0 for size in sizes]


@pytest.mark.parametrize(
    ("num_bytes", "words"),
    [(0, "0B"), (900, "900B"), (94 * MIB, "94M"), (1536 * MIB, "1.5G"), (1000 * MIB, "1000M")],
)
def test_a_size_takes_four_figures_at_most(num_bytes: int, words: str) -> None:
    assert short_size(num_bytes) == words


@pytest.mark.parametrize(
    ("num_held", "level", "words"),
    [
        (0, "fine", "context 0 of 1,000 tokens"),
        (799, "fine", "context 799 of 1,000 tokens"),
        (800, "low", "context 800 of 1,000 tokens · 200 left"),
        (950, "out", "context 950 of 1,000 tokens · 50 left"),
        (1000, "out", "context 1,000 of 1,000 tokens · 0 left"),
    ],
)
def test_the_context_meter_warns_at_four_fifths(num_held: int, level: str, words: str) -> None:
    reading = read_context(num_held, 1000)
    assert (reading.level, reading.words) == (level, words)


def test_an_answers_line_holds_the_figures_that_are_known() -> None:
    stats = AnswerStats(num_prompt=40, num_reused=31)
    assert stats_words(stats) == "0 tokens · reused 31 of 40"
    stats = AnswerStats(num_prompt=40, num_reused=31, num_generated=11, seconds=1.5, first=(1, 0.5))
    line = "11 tokens · 10.0 tok/s · first token 0.50 s · reused 31 of 40"
    assert stats_words(stats) == line
    assert ending_words(stats, None) == ending_words(stats, Ending.WHOLE) == line
    assert ending_words(stats, Ending.STOPPED) == f"{line} · stopped"
    assert ending_words(stats, Ending.BROKEN_OFF) == f"{line} · broken off"


def test_a_notice_is_only_given_where_something_was_cut_or_went_wrong() -> None:
    assert notice_words(AnswerStats(reason=FinishReason.STOP), None) == ""
    assert notice_words(AnswerStats(), None) == ""
    assert "8192" in notice_words(AnswerStats(), PromptTooLong(9000, 8192))
    full = AnswerStats(num_prompt=8000, num_generated=192, reason=FinishReason.LENGTH)
    assert "8,192 tokens" in notice_words(full, None)


def test_every_state_of_a_start_has_words() -> None:
    assert load_words(LoadStep(State.LOADING, 0.256)) == "loading the weights, 26%"
    assert all(load_words(LoadStep(state)) for state in State)


class TestInputHistory:
    def test_nothing_was_sent_yet(self) -> None:
        history = InputHistory()
        assert history.older("draft") is None
        assert history.newer("draft") is None

    def test_the_draft_waits_at_the_newest_end(self) -> None:
        history = InputHistory()
        history.add("one")
        history.add("two")
        assert history.older("draft") == "two"
        assert history.older("two") == "one"
        assert history.older("one") is None
        assert history.newer("one") == "two"
        assert history.newer("two") == "draft"

    def test_an_edited_earlier_message_stays_as_it_was_sent(self) -> None:
        history = InputHistory()
        history.add("one")
        assert history.older("") == "one"
        assert history.newer("one and more") == ""
        assert history.older("") == "one"

    def test_the_same_message_twice_is_kept_once(self) -> None:
        history = InputHistory()
        history.add("one")
        history.add("one")
        assert history.older("") == "one"
        assert history.older("one") is None
