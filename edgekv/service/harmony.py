"""Reads gpt-oss's answers, which are several messages with a header each.

<|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>commentary
to=functions.look <|constrain|>json<|message|>{"room": 1}<|call|>

The prompt ends with `<|start|>assistant`, so an answer begins inside a header. The format is
described in openai/harmony, docs/format.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from edgekv.service.pieces import Called, Piece, Said, Thought, ToolSchemas
from edgekv.service.regions import Reading, overlap

MESSAGE = "<|message|>"
ENDS = ("<|end|>", "<|return|>", "<|start|>")
CALL_ENDS = (*ENDS, "<|call|>")
HEADER_STARTS = ("<|channel|>", "<|start|>", "<|constrain|>", MESSAGE, "to=")

_RECIPIENT = re.compile(r"\bto=(?:functions\.)?([^\s<]+)")
_ANALYSIS = re.compile(r"<\|channel\|>\s*analysis\b")


class HarmonyReader:
    """Implements `pieces.AnswerReader`."""

    def __init__(self, tools: ToolSchemas) -> None:
        self._tools = tools
        self._text = ""
        self._header: str | None = None
        """None while a header is read."""
        self._may_lack_header = True
        """Nothing was read yet; words without a header are for the user."""
        self._searched = 0
        """Up to here a call's text holds no mark that ends it."""

    def feed(self, text: str) -> list[Piece]:
        self._text += text
        return list(self._read(is_end=False))

    def finish(self, *, is_cut: bool = False) -> list[Piece]:
        is_in_call = self._header is not None and _RECIPIENT.search(self._header) is not None
        pieces = list(self._read(is_end=True))
        self._text = ""
        if is_cut and is_in_call and pieces and isinstance(pieces[-1], Said):
            pieces.pop()  # the beginning of a call
        return pieces

    def _read(self, *, is_end: bool) -> Iterator[Piece]:
        goes_on = True
        while goes_on:
            if self._header is None:
                goes_on = self._read_header()
            elif recipient := _RECIPIENT.search(self._header):
                goes_on = yield from self._read_call(self._header, recipient[1], is_end)
            else:
                goes_on = yield from self._read_words(self._header, is_end)

    def _read_header(self) -> bool:
        if self._text and self._may_lack_header and not self._may_be_header():
            self._header = ""
            return True
        at = self._text.find(MESSAGE)
        if at >= 0:
            self._header, self._text = self._text[:at], self._text[at + len(MESSAGE) :]
            self._may_lack_header = False
        return at >= 0

    def _may_be_header(self) -> bool:
        start = self._text.lstrip()
        return any(start.startswith(mark) or mark.startswith(start) for mark in HEADER_STARTS)

    def _read_words(self, header: str, is_end: bool) -> Reading:
        at, mark = self._first_of(ENDS)
        if not mark and not is_end:
            at -= max(overlap(self._text, mark) for mark in ENDS)
        text, self._text = self._text[:at], self._text[at + len(mark) :]
        if text:
            yield Thought(text) if _ANALYSIS.search(header) else Said(text)
        if mark:
            self._header = None
        return bool(mark)

    def _read_call(self, header: str, name: str, is_end: bool) -> Reading:
        at, mark = self._first_of(CALL_ENDS, self._searched)
        if not mark and not is_end:
            return False
        body, rest = self._text[:at], self._text[at + len(mark) :]
        is_call, is_cut = _judge(body)
        if is_cut and mark:
            self._searched = at + len(mark)
            return True
        is_call = is_call and name in self._tools
        yield Called(name, body.strip()) if is_call else Said(header + MESSAGE + body)
        self._text, self._header, self._searched = rest, None, 0
        return bool(rest)

    def _first_of(self, marks: Sequence[str], start: int = 0) -> tuple[int, str]:
        """Where the first of them is; the text's end and "" if there is none."""
        found = [(at, mark) for mark in marks if (at := self._text.find(mark, start)) >= 0]
        return min(found, default=(len(self._text), ""))


def _judge(body: str) -> tuple[bool, bool]:
    """Whether this is a JSON object, and whether it ends inside a text."""
    try:
        return isinstance(json.loads(body), dict), False
    except json.JSONDecodeError as error:
        return False, error.msg.startswith("Unterminated string")
    except RecursionError:
        return False, False
