"""Markdown as models write it: what it looks like, and which part of it is settled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from rich import box
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.markdown import (
    CodeBlock,
    Heading,
    HorizontalRule,
    ListElement,
    ListItem,
    MarkdownElement,
    TableElement,
)
from rich.markdown import Markdown as RichMarkdown
from rich.padding import Padding
from rich.rule import Rule
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Span, Text

from edgekv.tui.maths import keep_formulas
from edgekv.tui.visible import visible

CODE_THEMES = {(False, True): "nord", (False, False): "friendly"}
"""Pygments styles by (terminal's own colours, dark)."""
CODE = ("fence", "code_block")


def parser() -> MarkdownIt:
    """Markdown as models write it. HTML stays text: dropping it would hide part of an answer.

    So do link definitions: they would reach into parts of the answer that are settled already.
    """
    markdown = MarkdownIt("gfm-like", {"html": False, "linkify": False}).disable("reference")
    markdown.core.ruler.push("as_written", _as_written)
    return keep_formulas(markdown)


def _as_written(state: StateCore) -> None:
    """Keep line ends, and show what character references such as &#8238; stand for."""
    for token in state.tokens:
        for child in token.children or ():
            child.content = visible(child.content)
            if child.type == "softbreak":
                child.type = "hardbreak"


@dataclass(frozen=True, slots=True)
class Cut:
    """A text that may still grow, cut in two: joined or apart, both are drawn alike."""

    settled: str
    """What will not change any more; may be empty."""
    rest: str
    leaves_gap: bool
    """Alike but for a gap: the cut is inside a list or a piece of code."""


def cut_settled(source: str) -> Cut:
    """Cut before the last block, or if there is one only, before its last entry or line."""
    blocks = [t for t in parser().parse(source) if t.map and t.nesting >= 0]
    starts = [t.map[0] for t in blocks if t.map and t.level == 0]
    lines = source.splitlines(keepends=True)
    is_one = len(starts) == 1
    if is_one and blocks[0].type == "fence":
        return _cut_code(lines, blocks[0].markup)
    if is_one:
        starts = [t.map[0] for t in blocks if t.map and t.level == 1 and t.type == "list_item_open"]
    at = starts[-1] if starts else 0
    return Cut("".join(lines[:at]), "".join(lines[at:]), leaves_gap=is_one)


def _cut_code(lines: list[str], fence: str) -> Cut:
    if len(lines) < 3 or lines[-1].strip() == fence:
        return Cut("", "".join(lines), leaves_gap=False)
    return Cut("".join(lines[:-1]) + fence, lines[0] + lines[-1], leaves_gap=True)


def code_theme(is_ansi: bool, is_dark: bool) -> str:
    return CODE_THEMES.get((is_ansi, is_dark), "ansi_dark" if is_dark else "ansi_light")


def code_in(text: str) -> tuple[str, ...]:
    """The pieces of code in a Markdown text, exactly as they stand in it."""
    return tuple(token.content for token in parser().parse(text) if token.type in CODE)


def highlighted(code: str, language: str, theme: str) -> Text:
    """Code in the colours of a Pygments style, without its background."""
    text = Syntax("", language or "text", theme=theme).highlight(code)
    text.rstrip()
    text.style, text.no_wrap, text.overflow = "", False, "fold"
    text.spans = [Span(s.start, s.end, _foreground(s.style)) for s in text.spans]
    return text


def _foreground(style: str | Style) -> Style:
    assert isinstance(style, Style)
    return Style(color=style.color, bold=style.bold, italic=style.italic)


class _StandingHeading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class _StandingCode(CodeBlock):
    """Code, and in its upper border a word to click on."""

    number = 0

    @classmethod
    def create(cls, markdown: RichMarkdown, token: Token) -> _StandingCode:
        block = cls((token.info or "").partition(" ")[0] or "text", markdown.code_theme)
        block.number = token.meta["number"]
        return block

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = highlighted(str(self.text).rstrip(), self.lexer_name, self.theme)
        style = console.get_style("markdown.code_block", default="none")
        click = Style(dim=True, meta={"@click": f"copy_code({self.number})"})
        word = Text.assemble(("copy", click), " ", justify="right")
        yield Padding(word, (0, 1), style=style, expand=True)
        yield Padding(code, (0, 2, 1, 2), style=style, expand=True)


class _StandingItem(ListItem):
    def render_mark(
        self, console: Console, options: ConsoleOptions, mark: str, style_name: str
    ) -> RenderResult:
        style = console.get_style(style_name)
        inner = options.update(width=max(1, options.max_width - len(mark)))
        lines = console.render_lines(self.elements, inner, style=self.style)
        for number, line in enumerate(lines):
            yield Segment(mark if number == 0 else " " * len(mark), style)
            yield from line
            yield Segment.line()


class _StandingList(ListElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        start = self.list_start or 0
        width = len(str(start + len(self.items) - 1))
        for number, item in enumerate(self.items, start=start):
            assert isinstance(item, _StandingItem)
            if self.list_type == "bullet_list_open":
                yield from item.render_mark(console, options, "• ", "markdown.item.bullet")
            else:
                mark = f" {number:>{width}}. "
                yield from item.render_mark(console, options, mark, "markdown.item.number")


class _StandingRule(HorizontalRule):
    new_line = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(style="markdown.hr")


class _StandingTable(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=box.SQUARE, style="markdown.table.border", show_lines=True)
        header = self.header.row.cells if self.header and self.header.row else []
        for cell in header:
            table.add_column(cell.content, header_style="markdown.table.header", overflow="fold")
        for row in self.body.rows if self.body else []:
            table.add_row(*(cell.content for cell in row.cells))
        yield table


class StandingMarkdown(RichMarkdown):
    """A text, or whole blocks of one, as one renderable."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **RichMarkdown.elements,
        "heading_open": _StandingHeading,
        "fence": _StandingCode,
        "code_block": _StandingCode,
        "hr": _StandingRule,
        "bullet_list_open": _StandingList,
        "ordered_list_open": _StandingList,
        "list_item_open": _StandingItem,
        "table_open": _StandingTable,
    }

    def __init__(self, text: str, code_theme: str, num_code_before: int = 0) -> None:
        """`num_code_before`: pieces of code that stand before this text."""
        # A link shows its address: one that hides it could lead anywhere.
        super().__init__("", code_theme=code_theme, hyperlinks=False)
        self.parsed = parser().parse(visible(text))
        pieces = [token for token in self.parsed if token.type in CODE]
        for number, token in enumerate(pieces, start=num_code_before):
            token.meta["number"] = number
        self.code = tuple(token.content for token in pieces)
