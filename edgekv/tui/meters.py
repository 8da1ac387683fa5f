"""The memory bar: what the plan allocates, by what it holds now."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from edgekv.budget.sizes import format_size
from edgekv.core.frames import Snapshot
from edgekv.core.plan import Label, MemoryPlan
from edgekv.service.worker import LoadStep, State
from edgekv.tui.words import load_words


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
    compute = planned("compute", "output", "recurrent", "runtime")
    parts = (
        MemoryPart("weights", planned("weights"), "memory-weights", "█"),
        MemoryPart("compute", compute, "memory-compute", "▓"),
        MemoryPart("KV used", kv_used, "memory-used", "▒"),
        MemoryPart("shared", kv_shared, "memory-shared", "▞"),
        MemoryPart("free", planned("kv") - kv_used - kv_shared, "memory-free", "░"),
        MemoryPart("host cache", planned("host_cache"), "memory-free", "·"),
    )
    return parts if planned("host_cache") else parts[:-1]


def split_cells(sizes: list[int], width: int) -> list[int]:
    """Screen cells for each size, `width` in all; what is not nothing gets at least one."""
    total = sum(sizes)
    if total == 0 or width < len(sizes):
        return [0] * len(sizes)
    cells = [max(1, size * width // total) if size else 0 for size in sizes]
    # The largest takes what rounding left over or took away.
    cells[sizes.index(max(sizes))] += width - sum(cells)
    return cells


def short_size(num_bytes: int) -> str:
    """ "94M", "1.2G": three figures at most."""
    number, unit = format_size(num_bytes).split()
    rounded = number if float(number) < 10 else str(round(float(number)))
    return f"{rounded.removesuffix('.0')}{unit[0]}"


class MemoryBar(Static):
    """How a start goes on, then the plan's memory by what it holds."""

    step: reactive[LoadStep] = reactive(LoadStep(State.STARTING))
    parts: reactive[tuple[MemoryPart, ...]] = reactive(())

    def render(self) -> Content:
        width = max(self.content_size.width, 1)
        if not self.parts:
            return self._progress(width)
        cells = split_cells([part.num_bytes for part in self.parts], width)
        has_colours = not self.app.no_color
        bar = [
            (("━" if has_colours else part.glyph) * count, f"${part.variable}")
            for part, count in zip(self.parts, cells, strict=True)
        ]
        legend: list[str | tuple[str, str]] = []
        for part in self.parts:
            legend.append(("■ " if has_colours else f"{part.glyph} ", f"${part.variable}"))
            # No break inside an entry, so that a narrow window wraps between them.
            words = f"{part.name} {short_size(part.num_bytes)}".replace(" ", "\N{NO-BREAK SPACE}")
            legend.append((f"{words}  ", "$quiet"))
        return Content.assemble(*bar, "\n", *legend)

    def _progress(self, width: int) -> Content:
        words, fraction = load_words(self.step), self.step.fraction
        done = round(width * fraction)
        return Content.assemble(
            ("━" * done, "$primary"), ("─" * (width - done), "$line"), "\n", (words, "$quiet")
        )
