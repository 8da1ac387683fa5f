"""What an answer consists of once it is read: thoughts, words for the user, calls of tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

import msgspec


class Thought(msgspec.Struct, frozen=True):
    text: str


class Said(msgspec.Struct, frozen=True):
    text: str


class Called(msgspec.Struct, frozen=True):
    name: str
    arguments: str
    """A JSON object."""


Piece: TypeAlias = Thought | Said | Called

ToolSchemas: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The JSON schema of each offered tool's parameters, by the tool's name."""


class AnswerReader(Protocol):
    """Reads one answer. How its text is divided among calls of `feed` makes no difference."""

    def feed(self, text: str) -> list[Piece]:
        """The pieces that are certain now."""

    def finish(self, *, is_cut: bool = False) -> list[Piece]:
        """What was held back. `is_cut` says that a limit ended the answer: then the beginning of a
        call is nothing, neither a call nor words for anybody.
        """


class PlainReader:
    """Every text is for the user."""

    def feed(self, text: str) -> list[Piece]:
        return [Said(text)] if text else []

    def finish(self, *, is_cut: bool = False) -> list[Piece]:
        return []
