"""The help screen: every key, by where it works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from edgekv.tui.keymap import bindings
from edgekv.tui.keys import HELP_KEYS, KEYS

HOW_TO_CHANGE = (
    "Any of them can be another key: the names behind them are those of [keys] in the settings; "
    "'edgekv config path' says where they are."
)


class HelpScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = HELP_KEYS

    def __init__(self, chosen: Mapping[str, Sequence[str]]) -> None:
        """`chosen` are keys by the name of what they do, as in the settings."""
        super().__init__()
        self._chosen = chosen

    def compose(self) -> ComposeResult:
        with Horizontal(classes="title"):
            yield Static("Keys", classes="screen-name")
        with VerticalScroll(id="help"):
            for section in KEYS:
                yield Static(section, classes="section")
                yield Static(self._table(bindings(section, self._chosen)))
            yield Static(HOW_TO_CHANGE, classes="section")
        yield Footer()
        yield Static("window too small", classes="too-small")

    def _table(self, shown: Sequence[Binding]) -> Table:
        table = Table(box=None, show_header=False, expand=True, padding=(0, 2, 0, 0))
        table.add_column(width=18)
        table.add_column(ratio=1)
        for binding in shown:
            keys = ", ".join(self._display(binding, key) for key in binding.key.split(","))
            told = Text.assemble(binding.tooltip, "  ", (binding.id or "", "dim"))
            table.add_row(Text(keys), told)
        return table

    def _display(self, binding: Binding, key: str) -> str:
        return self.app.get_key_display(binding.with_key(key, None))
