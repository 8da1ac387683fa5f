"""OpenAI's messages → the service's, with every part either used or refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from edgekv.errors import InvalidValue
from edgekv.service.messages import Message, Role, ToolCall

Nothing: TypeAlias = Annotated[list[Any], Meta(max_length=0)]

PART_SEPARATOR = "\n"
"""Between text parts of one message, as llama.cpp's and vLLM's servers join them."""


class MessagePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["text", "image_url", "input_audio", "file", "refusal"]
    text: str | None = None
    image_url: Any = None
    input_audio: Any = None
    file: Any = None
    refusal: Any = None


class CalledFunction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: str
    """JSON."""


class WireToolCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    function: CalledFunction
    type: Literal["function"] = "function"


class WireMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[MessagePart] | None = None
    name: str | None = None
    tool_calls: list[WireToolCall] | None = None
    tool_call_id: str | None = None
    # An answer sent back as it came has these; only their empty forms mean nothing.
    refusal: None = None
    annotations: Nothing | None = None
    audio: None = None
    function_call: None = None


def to_messages(wire: Sequence[WireMessage]) -> list[Message]:
    """Raises `InvalidValue`, whose `param` is where in the body it is."""
    return [_message(f"messages[{i}]", message) for i, message in enumerate(wire)]


def _message(where: str, wire: WireMessage) -> Message:
    _check_role(where, wire)
    role: Role = "system" if wire.role == "developer" else wire.role
    calls = tuple(
        _call(f"{where}.tool_calls[{i}]", call) for i, call in enumerate(wire.tool_calls or ())
    )
    return Message(role, _text(where, wire), wire.name, calls, wire.tool_call_id)


def _check_role(where: str, wire: WireMessage) -> None:
    if wire.tool_calls and wire.role != "assistant":
        raise InvalidValue(f"{where}.tool_calls", f"{where}: only an assistant has tool_calls.")
    if (wire.tool_call_id is not None) != (wire.role == "tool"):
        raise InvalidValue(
            f"{where}.tool_call_id", f"{where}: tool_call_id belongs to the role 'tool', always."
        )


def _text(where: str, wire: WireMessage) -> str:
    if isinstance(wire.content, str):
        return wire.content
    if wire.content is not None:
        parts = enumerate(wire.content)
        return PART_SEPARATOR.join(_part(f"{where}.content[{i}]", part) for i, part in parts)
    if wire.tool_calls:
        return ""
    raise InvalidValue(
        f"{where}.content", f"{where}: content may only be null next to tool_calls; send a text."
    )


def _part(where: str, part: MessagePart) -> str:
    if part.type != "text":
        kind = part.type.removesuffix("_url").removeprefix("input_")
        raise InvalidValue(where, f"{where}: this model reads text only; leave the {kind} out.")
    others = (part.image_url, part.input_audio, part.file, part.refusal)
    if part.text is None or any(other is not None for other in others):
        raise InvalidValue(where, f"{where}: a text part holds a text and nothing else.")
    return part.text


def _call(where: str, wire: WireToolCall) -> ToolCall:
    arguments = arguments_of(where, f"{where}.function.arguments", wire.function.arguments)
    return ToolCall(wire.id, wire.function.name, arguments)


def arguments_of(where: str, field: str, text: str) -> dict[str, Any]:
    """The arguments of an earlier call at `where`, of which `field` says the text. Raises
    `InvalidValue` for anything but a JSON object.
    """
    try:
        arguments = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise InvalidValue(field, f"{where}: the arguments are not a JSON object.")
    return arguments
