"""The pool drawn: one mark for a group of cells, told apart by who holds them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Static

from edgekv.core.inspection import HeldRun
from edgekv.core.look import EngineLook
from edgekv.core.request import SeqId
from edgekv.tui.meters import split_cells
from edgekv.tui.theme import NUM_OWNER_COLOURS

MARKS = "123456789abcdefghijklmnopqrstuvwxyz"
SHARED, KEPT, FREE = "#", "=", "·"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Cells side by side with the same kind of holder. The mark alone tells them apart too, for
    screens without colour.
    """

    mark: str
    variable: str
    """The theme's variable for its colour."""
    num_cells: int


def owner_mark(seq_id: SeqId) -> str:
    """The mark of a running sequence: its number in the list of slots, counted from 1."""
    return MARKS[seq_id % len(MARKS)]


def owner_variable(seq_id: SeqId) -> str:
    return f"owner-{seq_id % NUM_OWNER_COLOURS}"


def stretches(look: EngineLook, num_cells: int) -> list[Stretch]:
    """Who holds how many cells, in the order of the prefix tree, and at the end what is free."""
    parts = [_stretch(run) for run in look.runs]
    held = sum(part.num_cells for part in parts)
    parts.append(Stretch(FREE, "memory-free", max(0, num_cells - held)))
    return [
        Stretch(*kind, num_cells=sum(part.num_cells for part in same))
        for kind, same in groupby(parts, key=lambda part: (part.mark, part.variable))
    ]


def _stretch(run: HeldRun) -> Stretch:
    if len(run.running) + len(run.kept) > 1:
        return Stretch(SHARED, "memory-shared", run.num_cells)
    for seq_id in run.running:
        return Stretch(owner_mark(seq_id), owner_variable(seq_id), run.num_cells)
    return Stretch(KEPT, "memory-kept", run.num_cells)


class CellMap(Static):
    """As many marks as the widget has room for; whoever holds a cell gets one at least."""

    class Rescaled(Message):
        """A mark stands for another number of cells now."""

    parts: reactive[tuple[Stretch, ...]] = reactive(())

    def render(self) -> Content:
        width, height = self.content_size
        counts = split_cells([part.num_cells for part in self.parts], width * height)
        marks = [
            (part.mark, part.variable)
            for part, count in zip(self.parts, counts, strict=True)
            for _ in range(count)
        ]
        lines = [marks[start : start + width] for start in range(0, len(marks), max(1, width))]
        return Content("\n").join(map(_line, lines))

    def watch_parts(self) -> None:
        self.post_message(self.Rescaled())

    def on_resize(self) -> None:
        self.post_message(self.Rescaled())

    @property
    def cells_per_mark(self) -> int:
        width, height = self.content_size
        num_cells = sum(part.num_cells for part in self.parts)
        return max(1, round(num_cells / max(1, width * height)))


def _line(marks: list[tuple[str, str]]) -> Content:
    return Content.assemble(
        *(
            (mark * len(list(same)), _style(mark, variable))
            for (mark, variable), same in groupby(marks)
        )
    )


def _style(mark: str, variable: str) -> str:
    """What is shared stands out: it is what makes the pool hold more than it has cells."""
    if mark == FREE:
        return f"${variable}"
    return f"bold reverse ${variable}" if mark == SHARED else f"reverse ${variable}"
