"""The memory plan, line by line, over the chat."""

from __future__ import annotations

from typing import ClassVar

from rich import box
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from edgekv.budget.sizes import format_size
from edgekv.core.plan import MemoryPlan
from edgekv.tui.keys import PLAN_KEYS
from edgekv.tui.visible import visible


class PlanScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = PLAN_KEYS

    def __init__(self, plan: MemoryPlan) -> None:
        super().__init__()
        self._plan = plan

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="plan") as box_:
            box_.border_title = "memory plan"
            box_.border_subtitle = "esc closes"
            yield Static(plan_table(self._plan))
            yield Static(limit_words(self._plan), markup=False, classes="limits")


def plan_table(plan: MemoryPlan) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_footer=True, expand=True, pad_edge=False)
    table.add_column("device", "total", no_wrap=True)
    table.add_column("memory", no_wrap=True)
    table.add_column("size", format_size(plan.total_bytes), justify="right", no_wrap=True)
    table.add_column("how", f"of {format_size(plan.budget_bytes)} that may be used", ratio=1)
    for line in plan.lines:
        label = line.label.replace("_", " ")
        cells = (line.device, label, format_size(line.bytes), line.how)
        table.add_row(*(Text(visible(cell)) for cell in cells))
    return table


def limit_words(plan: MemoryPlan) -> str:
    return visible("\n".join(plan.limits))
