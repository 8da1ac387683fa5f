"""The models screen: what fits this machine, what is on its disk, and getting and deleting it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeAlias

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Static
from textual.worker import Worker as Task

from edgekv.budget.sizes import format_size
from edgekv.errors import EdgeKVError
from edgekv.models.transfer import Progress
from edgekv.models.verdicts import Verdict
from edgekv.service.model_supply import ModelSupply
from edgekv.tui.keys import MODELS_KEYS
from edgekv.tui.line import Line
from edgekv.tui.meters import Bar
from edgekv.tui.model_words import (
    COLUMNS,
    FITS,
    HERE,
    TOO_LARGE,
    UNKNOWN,
    count_words,
    detail_words,
    mark,
    progress_words,
    row,
)
from edgekv.tui.visible import visible

OpenFile: TypeAlias = Callable[[Path], None]

LEGEND = f"{HERE} on this disk  {FITS} fits  {TOO_LARGE} needs more memory  {UNKNOWN} not known yet"


class ModelTable(DataTable[Text], inherit_bindings=False):
    """Enter is the screen's, so that the footer tells what it does."""

    BINDINGS: ClassVar[list[BindingType]] = [
        binding
        for binding in DataTable.BINDINGS
        if isinstance(binding, Binding) and binding.key != "enter"
    ]

    def __init__(self) -> None:
        super().__init__(id="models", cursor_type="row", zebra_stripes=False)
        self.add_columns(*COLUMNS)


class ModelsScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = MODELS_KEYS

    @dataclass
    class Judged(Message):
        verdicts: tuple[Verdict, ...]

    @dataclass
    class Arrived(Message):
        """A part of a model has come, or there is a sentence about it."""

        name: str
        news: Progress | str

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, ModelsScreen.Arrived)

    @dataclass
    class Ended(Message):
        """Something was done or could not be: the sentence says which."""

        sentence: str

    def __init__(self, supply: ModelSupply, open_file: OpenFile) -> None:
        """`open_file` lets the conversation go on with the model in a file."""
        super().__init__()
        self._supply, self._open_file = supply, open_file
        self._verdicts: tuple[Verdict, ...] = ()
        self._getting: Task[None] | None = None
        self._to_delete: str | None = None
        """Named once; the key once more deletes it."""

    def compose(self) -> ComposeResult:
        with Horizontal(classes="title"):
            yield Static("Models", classes="screen-name")
            yield Line("looking at this machine and its models", classes="model")
        yield ModelTable()
        yield Line("", classes="detail")
        yield Bar(classes="progress")
        yield Line(LEGEND, classes="legend-line")
        yield Footer()
        yield Static("window too small", classes="too-small")

    def on_mount(self) -> None:
        self.query_one(DataTable).focus()
        self._look()

    def _look(self) -> None:
        self.run_worker(self._judge(), group="judge", exclusive=True)

    async def _judge(self) -> None:
        try:
            if not self._verdicts:
                self.post_message(self.Judged(self._supply.last or await self._supply.here()))
            self.post_message(self.Judged(await self._supply.judged()))
        except EdgeKVError as error:
            self.post_message(self.Ended(str(error)))

    @on(Judged)
    def _show(self, message: Judged) -> None:
        table = self.query_one(DataTable)
        chosen = self._chosen.name if self._chosen else None
        self._verdicts = message.verdicts
        table.clear()
        for verdict in message.verdicts:
            table.add_row(*(Text(visible(cell)) for cell in row(verdict)))
        names = [verdict.name for verdict in message.verdicts]
        table.move_cursor(row=names.index(chosen) if chosen in names else 0)
        if any(verdict.fits for verdict in message.verdicts):
            self.query_one(".model", Line).show(count_words(message.verdicts))
        self._describe()

    @property
    def _chosen(self) -> Verdict | None:
        place = self.query_one(DataTable).cursor_row
        return self._verdicts[place] if place < len(self._verdicts) else None

    @on(DataTable.RowHighlighted)
    def _describe(self) -> None:
        self._to_delete = None
        if self._chosen is not None:
            self.query_one(".detail", Line).show(detail_words(self._chosen))
        self.refresh_bindings()

    # --- keys ---

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        chosen = self._chosen if self.is_mounted else None
        match action:
            case "get":
                can_be_had = chosen is not None and mark(chosen) in {FITS, UNKNOWN}
                return can_be_had and self._getting is None
            case "open":
                return chosen is not None and chosen.local is not None and chosen.fits
            case "use":
                return self._usual is not None
            case "delete":
                return chosen is not None and chosen.local is not None and chosen.local.is_ours
            case "stop":
                return self._getting is not None
        return True

    @property
    def _usual(self) -> str | None:
        """What is done with a model that is chosen: open what is here, get what is not."""
        return next((one for one in ("open", "get") if self.check_action(one, ())), None)

    @on(DataTable.RowSelected)
    async def action_use(self) -> None:
        if self._usual is not None:
            await self.run_action(self._usual)

    def action_get(self) -> None:
        assert self._chosen is not None
        name = self._chosen.name
        self._getting = self.run_worker(self._get(name), group="get")
        self.query_one(".legend-line", Line).show(f"looking at its hub whether {name} fits here")
        self.refresh_bindings()

    async def _get(self, name: str) -> None:
        sentence = f"{name} stopped; getting it again goes on from there"
        try:
            await self._supply.get(name, lambda news: self._arrive(name, news))
            sentence = f"{name} is here"
        except EdgeKVError as error:
            sentence = str(error)
        finally:
            self._getting = None
            self.post_message(self.Ended(sentence))

    def _arrive(self, name: str, news: Progress | str) -> None:
        self.post_message(self.Arrived(name, news))

    @on(Arrived)
    def _show_progress(self, message: Arrived) -> None:
        if self._getting is None:
            return
        news, words = message.news, self.query_one(".legend-line", Line)
        if isinstance(news, str):
            words.show(news)
            return
        done, total = news.done_bytes, news.total_bytes
        self.query_one(Bar).stretches = (("━", "primary", done), ("─", "line", total - done))
        words.show(progress_words(message.name, news))

    @on(Ended)
    def _show_end(self, message: Ended) -> None:
        self.query_one(Bar).stretches = ()
        self.query_one(".legend-line", Line).show(message.sentence)
        self._look()

    def action_stop(self) -> None:
        if self._getting is not None:
            self._getting.cancel()

    async def action_delete(self) -> None:
        chosen = self._chosen
        assert chosen is not None
        assert chosen.local is not None
        if self._to_delete != chosen.name:
            self._to_delete = chosen.name
            size = format_size(chosen.local.num_bytes)
            words = f"the key once more deletes {chosen.local.path}, {size}"
            self.query_one(".legend-line", Line).show(words)
            return
        self._to_delete = None
        try:
            await self._supply.remove(chosen.local)
        except EdgeKVError as error:
            self.post_message(self.Ended(str(error)))
        else:
            self.post_message(self.Ended(f"{chosen.name} is deleted"))

    def action_open(self) -> None:
        chosen = self._chosen
        assert chosen is not None
        assert chosen.local is not None
        self._open_file(chosen.local.path)
