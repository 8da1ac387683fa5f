"""What a person reads of a plan."""

from __future__ import annotations

import pytest

from edgekv.budget.costs import step_costs
from edgekv.budget.sizes import format_size
from edgekv.budget.wish import Wish
from edgekv.cli.plan import ledger
from edgekv.core.plan import DeviceInfo, ModelFacts
from tests.unit.budget_models import GIB, HYBRID, MIB, WINDOWED, graphics, model, plan, with_memory


def text(
    wish: Wish | None = None, facts: ModelFacts | None = None, gpu: DeviceInfo | None = None
) -> str:
    facts = facts or model()
    return "\n".join(ledger(plan(wish, facts, gpu=gpu), facts))


def test_every_line_of_the_plan_is_there_with_its_size_and_reason() -> None:
    made, shown = plan(), text()
    for line in made.lines:
        assert any(
            line.label in row and format_size(line.bytes) in row and line.how in row
            for row in shown.splitlines()
        )


def test_every_bound_is_there() -> None:
    shown = text(with_memory(640 * MIB))
    for sentence in plan(with_memory(640 * MIB)).limits:
        assert f"  - {sentence}" in shown


def test_every_device_has_a_bar_of_its_part() -> None:
    shown = text(gpu=graphics(16 * GIB))
    bars = [row.split("]")[0].strip() for row in shown.splitlines() if row.startswith("  [")]
    assert len(bars) == 2
    assert {len(bar) for bar in bars} == {1 + 32}
    assert all("#" in bar and "." in bar for bar in bars)


def test_what_the_next_step_costs_is_there() -> None:
    shown = text()
    assert "One token takes 32,768 bytes" in shown
    assert "One more slot takes" in shown


def test_a_token_that_takes_nothing_is_said() -> None:
    keys = {"wkv__head_size": 64, "token_shift_count": 2}
    assert "One token takes no memory" in text(facts=model("rwkv7", **keys))


@pytest.mark.parametrize(
    ("num_bytes", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (180 * MIB, "180.0 MiB"),
        (1023 * MIB + 1023 * 1024, "1.0 GiB"),
        (5 * GIB, "5.0 GiB"),
        (2048 * GIB, "2.0 TiB"),
        (-2048, "-2.0 KiB"),
    ],
)
def test_a_size_has_the_unit_that_keeps_it_short(num_bytes: int, shown: str) -> None:
    assert format_size(num_bytes) == shown


class TestStepCosts:
    def test_a_slot_costs_its_context_and_more(self) -> None:
        made = plan(Wish(context_length=4096, slots=2))
        costs = step_costs(model(), made.choice)
        assert costs is not None
        assert costs.token == 32768
        assert costs.slot > 4096 * 32768
        assert 32000 * 4 <= costs.sharing_slot < MIB

    def test_a_bounded_window_makes_tokens_cheaper_and_slots_dearer(self) -> None:
        facts = model("gemma3", layers=18, context_train=8192, **WINDOWED)
        whole = plan(facts=facts).choice
        bounded = plan(with_memory(400 * MIB), facts=facts).choice
        whole_costs, bounded_costs = step_costs(facts, whole), step_costs(facts, bounded)
        assert whole_costs is not None
        assert bounded_costs is not None
        assert bounded_costs.token < whole_costs.token / 5
        assert bounded_costs.sharing_slot > whole_costs.sharing_slot

    def test_recurrent_state_comes_with_every_slot(self) -> None:
        facts = model("qwen35", **HYBRID)
        costs = step_costs(facts, plan(facts=facts).choice)
        assert costs is not None
        assert costs.sharing_slot > 12 * 2048 * 128 * 4

    def test_they_are_not_known_without_a_closed_form(self) -> None:
        assert step_costs(model("dflash"), plan().choice) is None
