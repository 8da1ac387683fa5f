"""How long conversations may be in a pool, and how many of them are kept."""

from __future__ import annotations

import pytest

from edgekv.budget.wish import Wish
from tests.unit.budget_models import MIB, plan, with_memory


@pytest.mark.parametrize("mebibytes", range(1800, 2300, 100))
def test_no_conversation_is_promised_a_part_of_a_row_of_cells(mebibytes: int) -> None:
    choice = plan(with_memory(mebibytes * MIB)).choice
    assert 8192 < choice.context_length < 32768
    assert choice.context_length % 256 == 0
    assert choice.cells >= choice.context_length * choice.slots


@pytest.mark.parametrize(("slots", "kept"), [(200, 4), (253, 2), (255, 0)])
def test_many_slots_leave_only_the_ids_that_llama_cpp_can_tell_apart(slots: int, kept: int) -> None:
    choice = plan(Wish(slots=slots, context_length=512)).choice
    assert (choice.slots, choice.kept) == (slots, kept)
    assert choice.num_ids <= 256
