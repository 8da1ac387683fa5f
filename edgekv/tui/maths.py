"""Formulas in an answer, kept as they were written: to Markdown they are full of its own marks."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

LONGEST = 2000
"""Characters of a formula in a line of text; a limit, so that hostile text costs little."""

_FORMULA = re.compile(
    rf"\\\(.{{1,{LONGEST}}}?\\\)"
    rf"|\\\[.{{1,{LONGEST}}}?\\\]"
    rf"|\$\$.{{1,{LONGEST}}}?\$\$"
    # Prices are no formulas: these begin and end with no blank, and no digit follows them.
    rf"|\$(?=[^\s$])[^$\n]{{1,{LONGEST}}}?(?<=\S)\$(?!\d)",
    re.DOTALL,
)
_CLOSING = {r"\[": r"\]", "$$": "$$"}
"""What ends a formula that has lines of its own, by what begins it."""
_OPEN = re.compile(r"(?:\\\[|\$\$).*", re.DOTALL)


def keep_formulas(markdown: MarkdownIt) -> MarkdownIt:
    """Let it take formulas for text: TeX between `$`, `$$`, `\\(` and `\\)`, `\\[` and `\\]`."""
    markdown.inline.ruler.before("escape", "formula", _in_a_line)
    markdown.block.ruler.before("fence", "formula", _of_lines, {"alt": ["paragraph"]})
    return markdown


def _in_a_line(state: StateInline, silent: bool) -> bool:
    match = _FORMULA.match(state.src, state.pos, state.posMax)
    if match is None and state.pos == 0:
        match = _OPEN.match(state.src)  # its end is still being written
    if match is None:
        return False
    if not silent:
        for number, line in enumerate(match[0].split("\n")):
            if number:
                state.push("hardbreak", "br", 0)
            state.push("text", "", 0).content = line
    state.pos = match.end()
    return True


def _of_lines(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A paragraph up to its end or to an empty line, whatever its lines begin with."""
    first = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]]
    closing = _CLOSING.get(first[:2])
    if closing is None or state.is_code_block(start):
        return False
    if closing in first[2:]:
        return False  # one line, and perhaps words after it: an ordinary paragraph
    if not silent:
        _add_paragraph(state, start, _end(state, start, end, closing))
    return True


def _end(state: StateBlock, start: int, end: int, closing: str) -> int:
    """The first line that is not the formula's any more."""
    for line in range(start + 1, end):
        if state.isEmpty(line) or state.sCount[line] < state.blkIndent:
            return line
        if closing in state.src[state.bMarks[line] : state.eMarks[line]]:
            return line + 1
    return end


def _add_paragraph(state: StateBlock, start: int, end: int) -> None:
    state.line = end
    state.push("paragraph_open", "p", 1).map = [start, end]
    inline = state.push("inline", "", 0)
    inline.content = state.getLines(start, end, state.blkIndent, False).strip()
    inline.map, inline.children = [start, end], []
    state.push("paragraph_close", "p", -1)
