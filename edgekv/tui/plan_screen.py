"""The plan screen: what is allocated and why, and what another choice would take."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rich import box
from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Footer, Static

from edgekv.budget.sizes import format_size
from edgekv.core.plan import MemoryPlan
from edgekv.errors import EdgeKVError
from edgekv.service.drafts import Desk, Draft
from edgekv.service.host import ModelHost
from edgekv.service.states import State
from edgekv.tui import wishes
from edgekv.tui.dial import AUTO, Dial, Setting
from edgekv.tui.keys import PLAN_KEYS
from edgekv.tui.line import Line
from edgekv.tui.visible import visible

SECONDS_AT_REST = 0.25
"""How long no dial was turned before the plan is made."""

IN_FORCE = "in force"
NOT_OURS = (
    "This is the plan of the server that answers; whoever runs it chooses another when it starts."
)
UNTOLD = "The server that answers is not EdgeKV, so it does not tell what it plans."


class PlanScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = PLAN_KEYS

    @dataclass
    class Drafted(Message):
        draft: Draft

    @dataclass
    class Refused(Message):
        """What the dials ask for cannot be had; the sentence says what can."""

        error: EdgeKVError

    class Applied(Message):
        """The model is open as drafted."""

    def __init__(self, host: Callable[[], ModelHost]) -> None:
        """`host` is asked when the screen opens."""
        super().__init__()
        self._host = host
        self._desk: Desk | None = None
        self._draft: Draft | None = None
        """What the ledger shows, unless that is the plan in force."""
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        host = self._host()
        plan, self._desk = host.plan, host.desk
        with Horizontal(classes="title"):
            yield Static("Plan", classes="screen-name")
            yield Line(Path(plan.model.path).stem if plan else "", classes="model")
            yield Line("", classes="verdict")
        with Vertical(id="dials", classes="panel") as dials:
            dials.border_title = "what to plan for"
            if self._desk is None:
                yield Line(_why_no_dials(host), "not-ours")
            elif plan is not None:
                yield from _dials(plan, self._desk)
        with VerticalScroll(id="ledger", classes="panel") as ledger:
            ledger.border_title = "memory plan"
            yield Line("", classes="refusal")
            yield Static(classes="table")
            yield Static(markup=False, classes="limits")
        yield Footer()
        yield Static("window too small", classes="too-small")

    def on_mount(self) -> None:
        if plan := self._host().plan:
            self._show_plan(plan, IN_FORCE)
        if self._desk is not None:
            self._show_wish()

    async def on_unmount(self) -> None:
        if self._desk is not None:
            await self._desk.close()

    # --- from the dials to a draft ---

    @on(Dial.Turned)
    def _plan_soon(self) -> None:
        self._stop_timer()
        self._timer = self.set_timer(SECONDS_AT_REST, self._plan_now)
        self.query_one(".verdict", Line).show("planning")

    def _plan_now(self) -> None:
        self._stop_timer()
        self.run_worker(self._make_draft(), group="draft", exclusive=True)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    async def _make_draft(self) -> None:
        assert self._desk is not None
        values = {dial.name or "": dial.setting.value for dial in self.query(Dial)}
        wish = wishes.wish_of({"layers": self._desk.wish.gpu_layers, **values}, self._desk.wish)
        try:
            self.post_message(self.Drafted(await self._desk.draft(wish)))
        except EdgeKVError as error:
            self.post_message(self.Refused(error))

    @on(Drafted)
    def _show_draft(self, message: Drafted) -> None:
        draft, now = message.draft, self._host().plan
        is_news = now is None or draft.plan.choice != now.choice
        self._draft = draft if is_news else None
        change = draft.plan.total_bytes - (now.total_bytes if now else 0)
        sign = "+" if change >= 0 else "-"
        verdict = f"{sign}{format_size(abs(change))} · ^s applies" if is_news else IN_FORCE
        self._show_plan(draft.plan, verdict)

    @on(Refused)
    def _show_refusal(self, message: Refused) -> None:
        self._draft = None
        self.query_one(".refusal", Line).show(str(message.error))
        self.query_one(".verdict", Line).show("does not fit")
        self.query_one("#ledger").add_class("-refused")
        self.refresh_bindings()

    # --- from a draft to the plan in force ---

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "apply":
                return self._draft is not None
            case "undo":
                return self._desk is not None
        return True

    def action_apply(self) -> None:
        assert self._draft is not None
        assert self._desk is not None
        self.query_one(".verdict", Line).show("opening")
        self.run_worker(self._take(self._desk, self._draft), group="take")
        self._draft = None
        self.refresh_bindings()

    async def _take(self, desk: Desk, draft: Draft) -> None:
        try:
            await desk.take(draft)
        except EdgeKVError as error:
            self.post_message(self.Refused(error))
        else:
            desk.wish = draft.wish
            self.post_message(self.Applied())

    @on(Applied)
    def action_undo(self) -> None:
        """Show the plan in force and the wish that it keeps."""
        self._draft = None
        if plan := self._host().plan:
            self._show_plan(plan, IN_FORCE)
        self._show_wish()

    # --- drawing ---

    def _show_wish(self) -> None:
        assert self._desk is not None
        values = wishes.values_of(self._desk.wish)
        for dial in self.query(Dial):
            dial.show(values[dial.name or ""])

    def _show_plan(self, plan: MemoryPlan, verdict: str) -> None:
        self.query_one("#ledger").remove_class("-refused")
        self.query_one(".refusal", Line).show("")
        self.query_one(".verdict", Line).show(verdict)
        self.query_one(".table", Static).update(plan_table(plan))
        self.query_one(".limits", Static).update(limit_words(plan))
        planned = wishes.planned_words(plan.choice)
        for dial in self.query(Dial):
            dial.planned = planned[dial.name or ""]
        self.refresh_bindings()


def _why_no_dials(host: ModelHost) -> str:
    if host.plan is not None:
        return NOT_OURS
    return UNTOLD if host.state is State.READY else "The model is being planned."


def _dials(plan: MemoryPlan, desk: Desk) -> ComposeResult:
    yield _dial("context", "context", wishes.context_steps(plan.model.context_train))
    yield _dial("slots", "slots", wishes.slot_steps())
    yield _dial("kv", "KV type", wishes.kv_type_names())
    if desk.has_gpu:
        yield _dial("layers", "on the GPU", wishes.layer_steps(desk.num_layers))


def _dial(name: str, label: str, steps: Iterable[int | str]) -> Dial:
    words = (Setting(f"{step:,}" if isinstance(step, int) else step, step) for step in steps)
    return Dial(name, label, (AUTO, *words))


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
