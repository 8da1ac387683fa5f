"""The engine screen: who holds which cells, what runs and waits, and how evenly it flows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from textual.widgets import Footer, Static

from edgekv.budget.sizes import counted
from edgekv.errors import EdgeKVError
from edgekv.service.host import ModelHost
from edgekv.service.report import Report
from edgekv.tui import engine_words as words
from edgekv.tui.cell_map import FREE, KEPT, SHARED, CellMap, stretches
from edgekv.tui.keys import ENGINE_KEYS
from edgekv.tui.line import Line
from edgekv.tui.meters import Bar
from edgekv.tui.visible import visible

SECONDS_BETWEEN_LOOKS = 0.5
"""A look costs the engine less than a thousandth of a step; drawing it costs more."""


LABEL_WIDTH = 13
SECONDS_WIDTH = 28
"""For "1,234 ms, at most 1,234 ms"."""


class EngineScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = ENGINE_KEYS

    @dataclass
    class Reported(Message):
        report: Report

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, EngineScreen.Reported)

    @dataclass
    class Untold(Message):
        """There is nothing to show, and why."""

        error: EdgeKVError

    def __init__(self, host: Callable[[], ModelHost]) -> None:
        """`host` is asked each time: the model may change while this screen is open."""
        super().__init__()
        self._host = host

    def compose(self) -> ComposeResult:
        with Horizontal(classes="title"):
            yield Static("Engine", classes="screen-name")
            yield Line("", classes="model")
            yield Line("", classes="queue")
        with VerticalScroll(id="engine"):
            with Vertical(id="cells", classes="panel") as cells:
                cells.border_title = "cells"
                yield CellMap()
                yield Static(classes="key")
            with Vertical(id="slots", classes="panel") as slots:
                slots.border_title = "slots"
                yield Line("", classes="requests")
            yield Flow()
            with Vertical(id="devices", classes="panel") as devices:
                devices.border_title = "memory held, of what is planned"
        yield Footer()
        yield Static("window too small", classes="too-small")

    def on_mount(self) -> None:
        self.run_worker(self._watch(), group="watch")

    async def _watch(self) -> None:
        """As long as the screen is open. A long step of the engine holds up nothing but this."""
        while True:
            try:
                self.post_message(self.Reported(await self._host().report()))
            except EdgeKVError as error:
                self.post_message(self.Untold(error))
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)

    @on(Untold)
    def _say_why(self, message: Untold) -> None:
        self.query_one(".requests", Line).show(str(message.error))

    @on(Reported)
    async def _show(self, message: Reported) -> None:
        report, host = message.report, self._host()
        snapshot = report.snapshot
        if report.plan is not None:
            self.query_one(".model", Line).show(Path(report.plan.model.path).stem)
        self.query_one(".queue", Line).show(f"{host.state} · {words.queue_words(snapshot)}")
        lines = words.slot_words(report, host.own_requests)
        self.query_one(".requests", Line).show("\n".join(lines))
        self._show_cells(report)
        self.query_one(Flow).report = report
        await self._show_devices(report)

    def _show_cells(self, report: Report) -> None:
        cells = self.query_one(CellMap)
        cells.parts = tuple(stretches(report.look, words.num_cells(report)))
        self.query_one("#cells").border_subtitle = words.cell_words(report)

    @on(CellMap.Rescaled)
    def _show_key(self) -> None:
        cells = self.query_one(CellMap)
        self.query_one(".key", Static).update(
            Content.assemble(
                ("1", "reverse $owner-0"),
                " slot 1  ",
                (SHARED, "bold reverse $memory-shared"),
                " shared  ",
                (KEPT, "reverse $memory-kept"),
                " kept  ",
                (FREE, "$memory-free"),
                f" free  ·  a mark is {counted(cells.cells_per_mark, 'cell')}",
            )
        )

    async def _show_devices(self, report: Report) -> None:
        devices = self.query_one("#devices")
        memory = words.device_memory(report)
        if len(devices.query(DeviceBar)) != len(memory):
            await devices.remove_children()
            await devices.mount(*(DeviceBar() for _ in memory))
        for bar, held in zip(devices.query(DeviceBar), memory, strict=True):
            bar.show(held)


class Flow(Vertical):
    """How evenly it flows: words, and bars in what width they leave."""

    report: reactive[Report | None] = reactive(None)

    def __init__(self) -> None:
        super().__init__(id="flow", classes="panel")
        self.border_title = "flow"

    def compose(self) -> ComposeResult:
        for name in ("gaps", "first-tokens", "reuse", "suspensions", "tiers", "memory"):
            yield Line("", classes=name)

    @on(events.Resize)
    def watch_report(self) -> None:
        report = self.report
        if report is None:
            return
        width = max(0, self.content_size.width - LABEL_WIDTH - SECONDS_WIDTH)
        for name, label, values in (
            ("gaps", "token gap", report.gap_seconds),
            ("first-tokens", "first token", report.first_token_seconds),
        ):
            told, bars = words.seconds_words(values), words.spark(values, width)
            line = f"{label:<{LABEL_WIDTH}}{told:<{SECONDS_WIDTH}}{bars}"
            self.query_one(f".{name}", Line).show(line.rstrip())
        for name, label, told in (
            ("reuse", "prompts", words.reuse_words(report.snapshot)),
            ("suspensions", "suspended", words.suspension_words(report.snapshot)),
            ("memory", "memory", words.memory_words(report)),
            ("tiers", "KV", words.tier_words(report)),
        ):
            self.query_one(f".{name}", Line).show(f"{label:<{LABEL_WIDTH}}{told}")


class DeviceBar(Horizontal):
    """One device: its name, a bar of what is held, and both numbers."""

    def compose(self) -> ComposeResult:
        yield Static(classes="device", markup=False)
        yield Bar()
        yield Static(classes="held", markup=False)

    def show(self, held: words.DeviceMemory) -> None:
        self.query_one(".device", Static).update(visible(held.device))
        self.query_one(".held", Static).update(held.words)
        rest = max(0, held.planned_bytes - held.measured_bytes)
        self.query_one(Bar).stretches = (
            ("━", "memory-used", held.measured_bytes),
            ("─", "line", rest),
        )
