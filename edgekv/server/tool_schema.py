"""Tools, and which of them an answer must call, as OpenAI's clients send them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from edgekv.core.request import Grammar
from edgekv.errors import InvalidValue
from edgekv.service.tools import Tool, forced_call, no_parameters

ToolName = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_.:-]{1,128}$")]


class WireFunction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: ToolName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class WireTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["function"]
    function: WireFunction


class ChosenFunction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str


class NamedChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["function"]
    function: ChosenFunction


ToolChoice: TypeAlias = Literal["none", "auto", "required"] | NamedChoice

CallRule: TypeAlias = Literal["none", "auto", "required", "named"]
"""Whether an answer may call a tool, or must call any or a certain one."""


class ToolUse(msgspec.Struct, frozen=True):
    """What an answer may call, and whether it must."""

    tools: tuple[Tool, ...] = ()
    forced: tuple[Tool, ...] = ()
    """One of these must be called."""
    one_call: bool = False

    def grammar(self) -> Grammar | None:
        """What makes the answer a call, if it must be one; raises `InvalidValue`."""
        if not self.forced:
            return None
        try:
            return forced_call(self.forced)
        except RecursionError:
            raise InvalidValue("tools", "tools: a schema is nested too deeply.") from None


def tool_of(wire: WireFunction) -> Tool:
    return Tool(wire.name, wire.description or "", wire.parameters or no_parameters())


def check_no_tools(use: ToolUse, form_field: str) -> None:
    """Raise `InvalidValue` if an answer whose form `form_field` gives may call tools."""
    if use.tools:
        raise InvalidValue(
            form_field,
            f"{form_field}: an answer of a given form can call no tools; leave the tools out, "
            f"set tool_choice to 'none', or leave {form_field} out.",
        )


def tool_use(
    tools: Sequence[Tool],
    rule: CallRule,
    named: str | None = None,
    *,
    one_call: bool = False,
) -> ToolUse:
    """`named` is the tool that must be called. Raises `InvalidValue` for a choice that the tools
    cannot meet.
    """
    names = [tool.name for tool in tools]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidValue("tools", f"tools: there are two with the name '{twice}'; rename one.")
    if named is not None and named not in names:
        raise InvalidValue("tool_choice", f"tool_choice: no tool has the name '{named[:80]}'.")
    if rule == "required" and not tools:
        raise InvalidValue("tool_choice", "tool_choice: a call is required but tools is empty.")
    if rule == "none":
        return ToolUse()
    if named is not None:
        forced = tuple(tool for tool in tools if tool.name == named)
        return ToolUse(tuple(tools), forced, one_call=True)
    return ToolUse(tuple(tools), tuple(tools) if rule == "required" else (), one_call)
