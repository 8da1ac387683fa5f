"""What /v1/messages takes, in the words of Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Meta

from edgekv.core.request import Grammar
from edgekv.errors import InvalidValue
from edgekv.server.messages import PART_SEPARATOR
from edgekv.server.schema import Count, Neutral, SamplingFields, StopText
from edgekv.server.tool_schema import CallRule, ToolName, ToolUse, check_no_tools, tool_use
from edgekv.service.messages import Message, ToolCall
from edgekv.service.tools import Tool


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    cache_control: Any = None
    """Every prompt is cached without being told."""


class TextBlock(Strict, frozen=True, kw_only=True, tag="text"):
    text: str
    citations: None = None


class ThinkingBlock(Strict, frozen=True, kw_only=True, tag="thinking"):
    thinking: str
    signature: str | None = None


class ToolUseBlock(Strict, frozen=True, kw_only=True, tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any]


class ToolResultBlock(Strict, frozen=True, kw_only=True, tag="tool_result"):
    tool_use_id: str
    content: str | list[TextBlock] | None = None
    is_error: bool | None = None


class ImageBlock(Strict, frozen=True, kw_only=True, tag="image"):
    source: Any = None


Block: TypeAlias = TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock | ImageBlock


class WireTurn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: Literal["user", "assistant"]
    content: str | list[Block]


class AnthropicTool(Strict, frozen=True, kw_only=True):
    name: ToolName
    input_schema: dict[str, Any]
    description: str | None = None
    type: Literal["custom"] | None = None


class WireChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


CALL_RULES: dict[str, CallRule] = {
    "none": "none",
    "auto": "auto",
    "any": "required",
    "tool": "named",
}


class Format(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["json_schema"]
    schema: dict[str, Any]


class OutputConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: Format | None = None


class Thinking(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["enabled", "adaptive", "disabled"]
    budget_tokens: Count | None = None
    """Thoughts count towards `max_tokens`, which is the only limit."""
    display: Literal["summarized"] | None = None
    """Thoughts are told as they are, which is more."""


class CountRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What /v1/messages/count_tokens takes."""

    neutral: ClassVar[Neutral] = {}

    model: str | None = None
    messages: Annotated[list[WireTurn], Meta(min_length=1)]
    system: str | list[TextBlock] | None = None
    tools: list[AnthropicTool] | None = None
    tool_choice: WireChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None

    def check(self) -> None:
        pass


class MessagesRequest(SamplingFields, frozen=True, kw_only=True):
    neutral: ClassVar[Neutral] = {
        "container": (),
        "inference_geo": (),
        "mcp_servers": ([],),
        "service_tier": ("auto", "standard_only"),
    }

    max_tokens: Count
    messages: Annotated[list[WireTurn], Meta(min_length=1)]
    system: str | list[TextBlock] | None = None
    stop_sequences: Annotated[list[StopText], Meta(max_length=16)] | None = None
    tools: list[AnthropicTool] | None = None
    tool_choice: WireChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None

    def check(self) -> None:
        if grammar_of(self) is not None:
            check_no_tools(use_of(self), "output_config.format")


def conversation_of(asked: CountRequest | MessagesRequest) -> list[Message]:
    """Raises `InvalidValue`, whose `param` is where in the body it is."""
    system = [] if asked.system is None else [Message("system", _joined(asked.system))]
    turns = enumerate(asked.messages)
    return system + [m for i, wire in turns for m in _messages(f"messages[{i}]", wire)]


def use_of(asked: CountRequest | MessagesRequest) -> ToolUse:
    """Raises `InvalidValue` for a choice that the tools cannot meet."""
    tools = [Tool(t.name, t.description or "", t.input_schema) for t in asked.tools or ()]
    choice = asked.tool_choice or WireChoice("auto")
    if choice.type == "tool" and choice.name is None:
        raise InvalidValue("tool_choice.name", "tool_choice: the type 'tool' needs a name.")
    named = choice.name if choice.type == "tool" else None
    one_call = bool(choice.disable_parallel_tool_use)
    return tool_use(tools, CALL_RULES[choice.type], named, one_call=one_call)


def thinks_in(asked: CountRequest | MessagesRequest) -> bool | None:
    """None where nothing was said: as the model's template has it."""
    return None if asked.thinking is None else asked.thinking.type != "disabled"


def grammar_of(asked: CountRequest | MessagesRequest) -> Grammar | None:
    """What the answer's words must look like."""
    form = asked.output_config and asked.output_config.format
    return Grammar.of_schema(form.schema) if form else None


def _messages(where: str, wire: WireTurn) -> Iterator[Message]:
    """One turn may answer calls and say something: each result is a message of its own."""
    if isinstance(wire.content, str):
        yield Message(wire.role, wire.content)
        return
    _check_blocks(where, wire)
    for block in wire.content:
        if isinstance(block, ToolResultBlock):
            text = _joined(block.content or "")
            content = f"Error: {text}" if block.is_error else text
            yield Message("tool", content, tool_call_id=block.tool_use_id)
    said = [block.text for block in wire.content if isinstance(block, TextBlock)]
    calls = tuple(
        ToolCall(block.id, block.name, block.input)
        for block in wire.content
        if isinstance(block, ToolUseBlock)
    )
    thought = "".join(b.thinking for b in wire.content if isinstance(b, ThinkingBlock))
    if said or calls or thought:
        text = PART_SEPARATOR.join(said)
        yield Message(wire.role, text, tool_calls=calls, thought=thought)


def _check_blocks(where: str, wire: WireTurn) -> None:
    assert not isinstance(wire.content, str)
    if not wire.content:
        raise InvalidValue(f"{where}.content", f"{where}: content is empty; send a text.")
    theirs = ToolResultBlock if wire.role == "assistant" else ToolUseBlock | ThinkingBlock
    for i, block in enumerate(wire.content):
        place = f"{where}.content[{i}]"
        if isinstance(block, ImageBlock):
            raise InvalidValue(place, f"{place}: this model reads text only; leave the image out.")
        if isinstance(block, theirs):
            raise InvalidValue(place, f"{place}: this block does not belong to a {wire.role}.")


def _joined(content: str | Sequence[TextBlock]) -> str:
    if isinstance(content, str):
        return content
    return PART_SEPARATOR.join(block.text for block in content)
