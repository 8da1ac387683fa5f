"""Reads an answer in which marks set thoughts and calls apart from words for the user.

    Let me look.<tool_call>{"name": "look", "arguments": {}}</tool_call>
    └─ Said ───┘           └─ Called ────────────────────┘

A text that could be the start of a mark is held until it is certain. What stands between the
marks of a call and is none is passed on as it came, its marks included. A call inside a thought
ends the thought: some models forget to.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from edgekv.service.pieces import Called, Piece, Said, Thought, ToolSchemas


class Unfinished(Exception):
    """The mark that was met belongs to a value; the region goes on behind it."""


CallsReader: TypeAlias = Callable[[str, ToolSchemas], Sequence[Called]]
"""The text between a region's marks → its calls.

Raises `Unfinished`, or `ValueError` for what is no call.
"""


Reading: TypeAlias = Generator[Piece, None, bool]
"""The pieces found, and at the end whether there may be more."""


@dataclass(frozen=True, slots=True)
class Region:
    open: str
    close: str | None
    """None: it goes on to the end of the answer, or to where it opens again."""
    calls: CallsReader | None = None
    """None: it is a thought."""
    leads: bool = False
    """Only the first visible text of an answer opens it; nothing closes it."""


@dataclass(frozen=True, slots=True)
class Marks:
    regions: tuple[Region, ...] = ()
    frames: tuple[str, ...] = ()
    """Marks around several calls, which mean nothing by themselves."""
    keeps_space: bool = False
    """Space next to calls is for the user."""


class RegionReader:
    """Implements `pieces.AnswerReader`. `within` is the region that the prompt has opened."""

    def __init__(self, marks: Marks, tools: ToolSchemas, within: Region | None = None) -> None:
        self._tools, self._keeps_space = tools, marks.keeps_space
        self._regions, self._frames = marks.regions, list(marks.frames)
        self._calls = {r.open: r for r in marks.regions if r.calls and not r.leads}
        self._region = within
        self._thought: Region | None = None
        """The thought around the region that may be a call."""
        self._text = ""
        """What is not certain yet."""
        self._searched = 0
        """Up to here the region's text holds no mark that closes it."""
        self._space = ""
        """Whether it is for the user shows with what follows."""
        self._drops_space = within is not None
        self._has_said = self._is_cut = False

    def feed(self, text: str) -> list[Piece]:
        self._text += text
        return list(self._read(is_end=False))

    def finish(self, *, is_cut: bool = False) -> list[Piece]:
        self._is_cut = is_cut
        pieces = list(self._read(is_end=True))
        if self._region is not None and self._region.calls is not None:
            pieces += self._no_call(self._region, len(self._text))
        if self._space:
            pieces.append(Said(self._space) if self._region is None else Thought(self._space))
        self._space = ""
        return pieces

    def _read(self, *, is_end: bool) -> Iterator[Piece]:
        goes_on = True
        while goes_on:
            if self._region is None:
                goes_on = yield from self._outside(is_end)
            elif self._region.calls is None:
                goes_on = yield from self._inside_thought(self._region, is_end)
            else:
                goes_on = yield from self._inside_call(self._region, self._region.calls, is_end)

    def _outside(self, is_end: bool) -> Reading:
        found = self._first_mark()
        if found is None:
            opens = [region.open for region in self._regions]
            yield from self._tell(Said, self._certain([*opens, *self._frames], is_end))
            return False
        at, mark, region = found
        yield from self._tell(Said, self._text[:at])
        is_thought = region is not None and region.calls is None
        if is_thought or not self._keeps_space:
            self._space, self._drops_space = "", True
        self._enter(region, at + len(mark))
        return True

    def _inside_thought(self, region: Region, is_end: bool) -> Reading:
        assert region.close is not None
        ends = [region.close, *self._calls, *self._frames]
        found = [(at, -len(end), end) for end in ends if (at := self._text.find(end)) >= 0]
        if not found:
            yield from self._tell(Thought, self._certain(ends, is_end))
            return False
        at, _, end = min(found)
        yield from self._tell(Thought, self._text[:at])
        call = self._calls.get(end)
        if call is None:
            self._space, self._drops_space = "", True
        else:
            self._thought = region
        self._enter(call, at + len(end))
        return True

    def _inside_call(self, region: Region, read: CallsReader, is_end: bool) -> Reading:
        mark = region.open if region.close is None else region.close
        at = -1 if region.leads else self._text.find(mark, self._searched)
        if (end := self._end_of_thought(at)) is not None:
            yield from self._no_call(region, end)
            return True
        if at < 0 and not (is_end and region.close is None):
            self._searched = max(0, len(self._text) - len(mark) + 1)
            return False
        at = len(self._text) if at < 0 else at
        rest = at if region.close is None else at + len(mark)
        try:
            calls = read(self._text[:at], self._tools)
        except Unfinished:
            self._searched = at + len(mark)
            return at < len(self._text)
        except (ValueError, RecursionError):
            yield from self._no_call(region, rest)
        else:
            yield from self._call(calls, rest)
        return True

    def _call(self, calls: Sequence[Called], rest: int) -> Iterator[Piece]:
        if self._thought is not None:
            assert self._thought.close is not None
            self._frames.append(self._thought.close)  # it may be written after all
        elif self._space:
            yield Said(self._space)
        self._space, self._drops_space = "", not self._keeps_space
        yield from calls
        self._thought = None
        self._enter(None, rest)

    def _no_call(self, region: Region, end: int) -> Iterator[Piece]:
        """Pass on what looked like a call, unless the rest of it was cut off."""
        text, kind = region.open + self._text[:end], Thought if self._thought else Said
        if self._is_cut and end == len(self._text) and not region.leads:
            self._space = ""
        else:
            self._drops_space = False
            yield from self._tell(kind, text)
        self._enter(self._thought, end)
        self._thought, self._drops_space = None, False

    def _end_of_thought(self, end_of_call: int) -> int | None:
        """Where the thought around ends, if that is before what looks like a call does."""
        if self._thought is None or self._thought.close is None:
            return None
        end = self._text.find(self._thought.close)
        return end if end >= 0 and not 0 <= end_of_call < end else None

    def _enter(self, region: Region | None, start: int) -> None:
        self._text, self._region, self._searched = self._text[start:], region, 0

    def _first_mark(self) -> tuple[int, str, Region | None] | None:
        """Where the next region or frame opens; of two at one place the longer mark counts."""
        found = [(at, r.open, r) for r in self._regions if (at := self._place_of(r)) >= 0]
        frames = [(at, f, None) for f in self._frames if (at := self._text.find(f)) >= 0]
        return min([*found, *frames], key=lambda f: (f[0], -len(f[1])), default=None)

    def _place_of(self, region: Region) -> int:
        if not region.leads:
            return self._text.find(region.open)
        start = len(self._text) - len(self._text.lstrip())
        opens = not self._has_said and self._text.startswith(region.open, start)
        return start if opens else -1

    def _certain(self, marks: Sequence[str], is_end: bool) -> str:
        """Take the text that no mark can begin in."""
        held = 0 if is_end else max((overlap(self._text, mark) for mark in marks), default=0)
        certain = len(self._text) - held
        text, self._text = self._text[:certain], self._text[certain:]
        return text

    def _tell(self, kind: type[Said] | type[Thought], text: str) -> Iterator[Piece]:
        """The text without the space at its end, which is held, or at its start, if it is to go."""
        text = self._space + text
        if self._drops_space:
            text = text.lstrip()
        told = text.rstrip()
        self._space = text[len(told) :]
        if told:
            self._drops_space = False
            self._has_said = self._has_said or kind is Said
            yield kind(told)


def overlap(text: str, mark: str) -> int:
    """How many characters at the end of `text` could be the start of `mark`."""
    longest = min(len(text), len(mark) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(mark[:n])), 0)
