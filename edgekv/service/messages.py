"""What a conversation consists of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


class ToolCall(msgspec.Struct, frozen=True):
    """A call that an earlier answer of the model asked for."""

    id: str
    name: str
    arguments: Mapping[str, Any]


class Message(msgspec.Struct, frozen=True):
    role: Role
    content: str = ""
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    """The call that a tool's message answers."""
    thought: str = ""
    """What the model thought before it answered."""
