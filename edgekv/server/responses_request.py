"""What /v1/responses takes, in the words of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from edgekv.core.request import Grammar
from edgekv.errors import InvalidValue
from edgekv.server.chat_request import Effort, ObjectFormat, TextFormat
from edgekv.server.messages import PART_SEPARATOR, Nothing, arguments_of
from edgekv.server.schema import Count, Neutral, SamplingFields
from edgekv.server.tool_schema import ToolUse, WireFunction, check_no_tools, tool_of, tool_use
from edgekv.service.messages import Message, Role, ToolCall


class ItemPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal[
        "input_text",
        "output_text",
        "text",
        "reasoning_text",
        "input_image",
        "input_file",
        "refusal",
    ]
    text: str | None = None
    annotations: Nothing | None = None
    logprobs: Nothing | None = None
    image_url: Any = None
    detail: Any = None
    file_id: Any = None
    file_data: Any = None
    filename: Any = None
    refusal: Any = None


class Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Any item of a conversation; which fields one has depends on its type."""

    type: Literal["message", "function_call", "function_call_output", "reasoning"] = "message"
    id: str | None = None
    status: str | None = None
    role: Literal["user", "assistant", "system", "developer"] | None = None
    content: str | list[ItemPart] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | list[ItemPart] | None = None
    summary: list[Any] | None = None
    encrypted_content: None = None


class FlatTool(WireFunction, frozen=True, forbid_unknown_fields=True, kw_only=True):
    type: Literal["function"]


class FlatChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["function"]
    name: str


class FlatSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="json_schema"):
    name: str
    schema: Any
    description: str | None = None
    strict: bool | None = None


class TextOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: TextFormat | ObjectFormat | FlatSchema | None = None


class Reasoning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    effort: Effort | None = None
    summary: Literal["auto"] | None = None
    """Thoughts are told as they are, so there is nothing to sum up."""


T = TypeVar("T")

ToolChoice: TypeAlias = Literal["none", "auto", "required"] | FlatChoice


class ResponsesRequest(SamplingFields, frozen=True, kw_only=True):
    neutral: ClassVar[Neutral] = {
        "background": (False,),
        "conversation": (),
        # Thoughts come as they are, never encrypted.
        "include": ([], ["reasoning.encrypted_content"]),
        "max_tool_calls": (),
        "moderation": (),
        "prompt": (),
        "service_tier": ("auto", "default"),
        "stream_options": ({"include_obfuscation": False},),
        "top_logprobs": (0,),
        "truncation": ("disabled",),
    }

    input: str | Annotated[list[Item], Meta(min_length=1)]
    instructions: str | None = None
    max_output_tokens: Count | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    tools: list[FlatTool] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    text: TextOptions | None = None
    reasoning: Reasoning | None = None

    def check(self) -> None:
        if self.grammar() is not None:
            check_no_tools(self.tool_use(), "text.format")

    def grammar(self) -> Grammar | None:
        match self.text and self.text.format:
            case FlatSchema(schema=schema):
                return Grammar.of_schema(schema)
            case ObjectFormat():
                return Grammar("json_object")
        return None

    def tool_use(self) -> ToolUse:
        """Raises `InvalidValue` for a choice that the tools cannot meet."""
        tools = list(map(tool_of, self.tools or ()))
        one_call = self.parallel_tool_calls is False
        if isinstance(self.tool_choice, FlatChoice):
            return tool_use(tools, "named", self.tool_choice.name)
        return tool_use(tools, self.tool_choice or "auto", one_call=one_call)

    def said(self) -> list[Message]:
        """What this request adds to a conversation. Raises `InvalidValue`."""
        if isinstance(self.input, str):
            return [Message("user", self.input)]
        return list(_joined(_message(f"input[{i}]", item) for i, item in enumerate(self.input)))


def _joined(messages: Iterable[Message]) -> Iterator[Message]:
    """Thoughts, words and calls that follow each other are one answer of the model."""
    before: Message | None = None
    for message in messages:
        if before and _goes_on(before, message):
            before = replace(
                before,
                thought=before.thought + message.thought,
                content=before.content or message.content,
                tool_calls=before.tool_calls + message.tool_calls,
            )
            continue
        if before:
            yield before
        before = message
    if before:
        yield before


def _goes_on(before: Message, message: Message) -> bool:
    are_the_models = before.role == message.role == "assistant"
    return are_the_models and not (before.content and message.content)


def _message(where: str, item: Item) -> Message:
    match item.type:
        case "message":
            return _spoken(where, item)
        case "function_call":
            return _called(where, item)
        case "function_call_output":
            output = _text(f"{where}.output", item.output)
            return Message("tool", output, tool_call_id=_needed(f"{where}.call_id", item.call_id))
        case "reasoning":
            return Message("assistant", thought=_text(f"{where}.content", item.content or ""))


def _spoken(where: str, item: Item) -> Message:
    role: Role | Literal["developer"] = _needed(f"{where}.role", item.role)
    content = _text(f"{where}.content", item.content)
    return Message("system" if role == "developer" else role, content)


def _called(where: str, item: Item) -> Message:
    field = f"{where}.arguments"
    arguments = arguments_of(where, field, _needed(field, item.arguments))
    call_id = _needed(f"{where}.call_id", item.call_id)
    call = ToolCall(call_id, _needed(f"{where}.name", item.name), arguments)
    return Message("assistant", tool_calls=(call,))


def _text(where: str, given: str | Sequence[ItemPart] | None) -> str:
    if given is None:
        raise _missing(where)
    if isinstance(given, str):
        return given
    return PART_SEPARATOR.join(_part(f"{where}[{i}]", part) for i, part in enumerate(given))


def _part(where: str, part: ItemPart) -> str:
    if part.text is None or part.type in ("input_image", "input_file", "refusal"):
        kind = part.type.removeprefix("input_")
        raise InvalidValue(where, f"{where}: this model reads text only; leave the {kind} out.")
    return part.text


def _needed(where: str, value: T | None) -> T:
    if value is None:
        raise _missing(where)
    return value


def _missing(where: str) -> InvalidValue:
    return InvalidValue(where, f"{where} is missing.")
