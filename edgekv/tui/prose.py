"""Markdown on the screen that may still grow: one widget, drawn beside the event loop."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.theme import Theme as RichTheme
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from edgekv.tui.markdown import StandingMarkdown, code_in, code_theme, cut_settled
from edgekv.tui.theme import markdown_styles
from edgekv.tui.visible import visible

T = TypeVar("T")

LONGEST_REST = 500
"""Characters. What may still change is drawn again with each piece of text, so it is kept short."""
LONGEST_BLOCK = 2000
"""Characters. A longer list or piece of code is cut too, which leaves a gap until it is whole."""

SIDES = 4
"""Columns beside the text that `edgekv.tcss` leaves empty."""

_drawer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="drawer")
"""Keys are seen while it draws. Only one, for each takes its share of the event loop's turns."""


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What drawn Markdown depends on beside its text."""

    width: int
    styles: RichTheme
    code_theme: str


@dataclass(slots=True, eq=False)
class Part:
    """Whole blocks of a text, as lines for one look."""

    source: str
    look: Look | None = None
    """None before it is drawn."""
    lines: Sequence[Strip] = ()
    code: tuple[str, ...] = ()

    def draw(self, look: Look, num_code_before: int) -> None:
        """`num_code_before`: pieces of code in the text before this part."""
        console = Console(
            file=io.StringIO(), width=look.width, theme=look.styles, legacy_windows=False
        )
        markdown = StandingMarkdown(self.source, look.code_theme, num_code_before)
        segments = console.render(markdown, console.options.update(highlight=False))
        lines = Segment.split_and_crop_lines(
            segments, look.width, include_new_lines=False, pad=False
        )
        self.lines = tuple(Strip(line) for line in lines)
        self.look, self.code = look, markdown.code


def draw_all(parts: Sequence[Part], look: Look) -> None:
    """Draw those that do not look like that yet."""
    num_code = 0
    for part in parts:
        if part.look is not look:
            part.draw(look, num_code)
        num_code += len(part.code)


class Prose(Widget):
    """An answer's text. What is settled is drawn once for a width and a theme."""

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self._text = text
        """The exact one, once nothing is added any more."""
        self._parts = [Part(visible(text))]
        self._has_gaps = False
        self._look: Look | None = None
        """None before it was laid out."""
        self._lines: list[Strip] = []
        self._drawing = asyncio.Lock()

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, self._take_theme)

    async def grow(self, text: str) -> None:
        """Append text, and draw it."""
        async with self._drawing:
            self._parts[-1] = Part(self._parts[-1].source + visible(text))
            await self._settle()
            await self._draw()

    async def end(self, text: str) -> None:
        """Nothing is added any more: this is the exact text, the end of which may be new."""
        async with self._drawing:
            self._text, shown = text, visible(text)
            settled = "".join(part.source for part in self._parts[:-1])
            if self._has_gaps:
                self._parts = [Part(shown)]
            else:
                self._parts[-1] = Part(shown[len(settled) :])
            await self._draw()

    async def prepare(self, width: int) -> None:
        """Draw it for so many columns, so that laying it out takes no time."""
        async with self._drawing:
            self._look = self._look_at(width)
            await self._draw()

    async def _settle(self) -> None:
        """Put what will not change any more into a part of its own."""
        source = self._parts[-1].source
        if len(source) > LONGEST_REST:
            cut = await _beside(partial(cut_settled, source))
            if cut.settled and (not cut.leaves_gap or len(source) > LONGEST_BLOCK):
                self._has_gaps |= cut.leaves_gap
                self._parts[-1:] = [Part(cut.settled), Part(cut.rest)]

    # --- drawing ---

    async def _draw(self) -> None:
        if self._look is not None:  # else it is drawn when it is laid out
            await _beside(partial(draw_all, tuple(self._parts), self._look))
            self._join()
            self.refresh(layout=True)

    async def _draw_anew(self) -> None:
        async with self._drawing:
            await self._draw()

    def _join(self) -> None:
        self._lines = []
        for part in self._parts:
            if self._lines and part.lines:
                self._lines.append(Strip([]))
            self._lines.extend(part.lines)

    def _look_at(self, width: int) -> Look:
        theme = self.app.current_theme
        styles = markdown_styles(self.app.theme_variables, theme.ansi)
        return Look(width, styles, code_theme(theme.ansi, theme.dark))

    def _look_again(self, width: int) -> None:
        """Draw it anew in a task: Textual forgets a change of height if messages wait for it."""
        self._look = self._look_at(width)
        self.run_worker(self._draw_anew(), group="draw")

    def _take_theme(self, _: Theme) -> None:
        if self._look is not None:
            self._look_again(self._look.width)

    # --- what Textual asks for ---

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Lines. Those of another width stand in until the text is drawn again."""
        if self._look is None and width:
            self._look = self._look_at(width)
            draw_all(self._parts, self._look)
            self._join()
        elif self._look is not None and width not in {0, self._look.width}:
            self._look_again(width)
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        style, width = self.visual_style.rich_style, self.content_size.width
        line = self._lines[y] if y < len(self._lines) else Strip([])
        span = self.text_selection.get_span(y) if self.text_selection else None
        if span is not None:
            line = _marked(line, span, self.screen.get_component_rich_style("screen--selection"))
        return line.apply_style(style).adjust_cell_length(width, style).apply_offsets(0, y)

    def get_selection(self, selection: Selection) -> tuple[str, str]:
        return selection.extract("\n".join(line.text.rstrip() for line in self._lines)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def action_copy_code(self, number: int) -> None:
        shown = [code for part in self._parts for code in part.code]
        exact = code_in(self._text)
        # Control characters that are drawn as pictures may part lines otherwise than they do.
        code = exact if len(exact) == len(shown) else shown
        self.app.copy_to_clipboard(code[number])
        self.notify("Copied the code", timeout=2)


async def _beside(work: Callable[[], T]) -> T:
    """Done by the drawer while the event loop goes on."""
    return await asyncio.get_running_loop().run_in_executor(_drawer, work)


def _marked(line: Strip, span: tuple[int, int], style: Style) -> Strip:
    """With its characters from one up to another in that style; -1 is the line's end."""
    start, end = span
    cuts = (cell_len(line.text[:start]), cell_len(line.text[: end if end >= 0 else None]))
    before, inside, after = line.divide((*cuts, line.cell_length))
    marked = Strip(Segment.apply_style(inside, post_style=style))
    return Strip.join((before, marked, after))
