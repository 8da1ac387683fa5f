"""The memory bar: what the plan allocates, by what it holds now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from edgekv.budget.sizes import format_size
from edgekv.core.frames import Snapshot
from edgekv.core.plan import Label, MemoryPlan
from edgekv.service.states import LoadStep, State
from edgekv.tui.words import load_words

NUM_MODEL_PARTS = 2
"""Weights and compute come first and never change; what follows is KV."""


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """One stretch of the memory bar. Each has a glyph of its own, for screens without colour."""

    name: str
    num_bytes: int
    variable: str
    """The theme's variable for its colour."""
    glyph: str


def memory_parts(plan: MemoryPlan, snapshot: Snapshot) -> tuple[MemoryPart, ...]:
    """The whole plan, split by what is there now."""

    def planned(*labels: Label) -> int:
        return sum(line.bytes for line in plan.lines if line.label in labels)

    # Before the first step the engine has reported no cells; then all of them are free.
    per_cell = planned("kv") / (snapshot.num_cells or plan.choice.cells)
    used, shared = snapshot.cells_used, snapshot.cells_shared
    kv_used, kv_shared = round((used - shared) * per_cell), round(shared * per_cell)
    compute = planned("compute", "output", "embedding", "adapter", "recurrent", "runtime")
    # The host cache is room for conversations too, once the pool has none left.
    free = planned("kv", "host_cache") - kv_used - kv_shared
    return (
        MemoryPart("weights", planned("weights"), "memory-weights", "█"),
        MemoryPart("compute", compute, "memory-compute", "▓"),
        MemoryPart("KV used", kv_used, "memory-used", "▒"),
        MemoryPart("shared", kv_shared, "memory-shared", "▞"),
        MemoryPart("free", free, "memory-free", "░"),
    )


def split_cells(sizes: list[int], width: int) -> list[int]:
    """Screen cells for each size, `width` in all; what is not nothing gets at least one."""
    total = sum(sizes)
    if total == 0 or width < len(sizes):
        return [0] * len(sizes)
    cells = [max(1, size * width // total) if size else 0 for size in sizes]
    cells[sizes.index(max(sizes))] += max(0, width - sum(cells))
    while sum(cells) > width:
        cells[cells.index(max(cells))] -= 1
    return cells


def short_size(num_bytes: int) -> str:
    """ "94M", "1.2G": three figures at most."""
    number, unit = format_size(num_bytes).split()
    rounded = number if float(number) < 10 else str(round(float(number)))
    return f"{rounded.removesuffix('.0')}{unit[0]}"


class Bar(Static):
    """A line of coloured stretches as wide as the widget: (glyph, theme variable, size)."""

    stretches: reactive[tuple[tuple[str, str, int], ...]] = reactive(())

    def render(self) -> Content:
        cells = split_cells([size for _, _, size in self.stretches], self.content_size.width)
        return Content.assemble(
            *(
                (glyph * count, f"${variable}")
                for (glyph, variable, _), count in zip(self.stretches, cells, strict=True)
            )
        )


class MemoryBar(Vertical):
    """How a start goes on, then the plan's memory by what it holds, with a legend."""

    step: reactive[LoadStep] = reactive(LoadStep(State.STARTING))
    parts: reactive[tuple[MemoryPart, ...]] = reactive(())

    def compose(self) -> ComposeResult:
        yield Bar()
        with Horizontal(classes="legend"):
            yield Static(classes="model-part")
            yield Static(classes="kv-part")

    def watch_step(self) -> None:
        self._show_progress()

    def watch_parts(self) -> None:
        if not self.parts:
            self._show_progress()
            return
        plain = self.app.no_color
        self.query_one(Bar).stretches = tuple(
            (part.glyph if plain else "━", part.variable, part.num_bytes) for part in self.parts
        )
        entries = [
            Content.assemble(
                (part.glyph if plain else "■", f"${part.variable}"),
                f" {part.name} {short_size(part.num_bytes)}  ",
            )
            for part in self.parts
        ]
        self._write_legend(*entries[:NUM_MODEL_PARTS], kv=entries[NUM_MODEL_PARTS:])

    def _show_progress(self) -> None:
        if not self.parts:
            done = round(self.step.fraction * 1000)
            self.query_one(Bar).stretches = (("━", "primary", done), ("─", "line", 1000 - done))
            self._write_legend(Content(load_words(self.step)))

    def _write_legend(self, *model: Content, kv: Sequence[Content] = ()) -> None:
        self.query_one(".model-part", Static).update(Content("").join(model))
        self.query_one(".kv-part", Static).update(Content("").join(kv))
