"""What /v1/chat/completions takes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from edgekv.core.request import Grammar
from edgekv.errors import InvalidValue
from edgekv.server.messages import WireMessage
from edgekv.server.schema import Count, Generation, NumLikeliest
from edgekv.server.tool_schema import (
    NamedChoice,
    ToolChoice,
    ToolUse,
    WireTool,
    check_no_tools,
    tool_of,
    tool_use,
)


class TextFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="text"):
    pass


class ObjectFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="json_object"):
    pass


class NamedSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    schema: Any = None
    description: str | None = None
    strict: bool | None = None
    """Answers are held to the schema either way."""


class SchemaFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="json_schema"):
    json_schema: NamedSchema


ResponseFormat: TypeAlias = TextFormat | ObjectFormat | SchemaFormat

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class ChatRequest(Generation, frozen=True, kw_only=True):
    messages: Annotated[list[WireMessage], Meta(min_length=1)]
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: NumLikeliest | None = None
    response_format: ResponseFormat | None = None
    tools: list[WireTool] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Effort | None = None

    @property
    def token_limit(self) -> int | None:
        """The stricter of the two limits; None is as many as there is room for."""
        given = [n for n in (self.max_tokens, self.max_completion_tokens) if n is not None]
        return min(given, default=None)

    @property
    def num_likeliest(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None

    def tool_use(self) -> ToolUse:
        """Raises `InvalidValue` for a choice that the tools cannot meet."""
        tools = [tool_of(tool.function) for tool in self.tools or ()]
        one_call = self.parallel_tool_calls is False
        if isinstance(self.tool_choice, NamedChoice):
            return tool_use(tools, "named", self.tool_choice.function.name)
        return tool_use(tools, self.tool_choice or "auto", one_call=one_call)

    def grammar(self) -> Grammar | None:
        """What the answer's words must look like."""
        return grammar_of(self.response_format)

    def check(self) -> None:
        super().check()
        if self.top_logprobs and not self.logprobs:
            raise InvalidValue("top_logprobs", "top_logprobs needs logprobs to be true.")
        if self.grammar() is not None:
            check_no_tools(self.tool_use(), "response_format")


def grammar_of(form: ResponseFormat | None) -> Grammar | None:
    match form:
        case SchemaFormat(json_schema=named):
            return Grammar.of_schema({} if named.schema is None else named.schema)
        case ObjectFormat():
            return Grammar("json_object")
    return None
