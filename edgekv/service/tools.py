"""Tools that an answer may call, and grammars that make it call one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from edgekv.core.request import Grammar
from edgekv.service.pieces import Called, Piece, Said, ToolSchemas


def no_parameters() -> dict[str, Any]:
    return {"type": "object", "properties": {}}


class Tool(msgspec.Struct, frozen=True):
    name: str
    description: str = ""
    parameters: Mapping[str, Any] = msgspec.field(default_factory=no_parameters)
    """A JSON schema."""


def schemas_of(tools: Sequence[Tool]) -> ToolSchemas:
    return {tool.name: tool.parameters for tool in tools}


def forced_call(tools: Sequence[Tool]) -> Grammar:
    """One call of one of the tools, as `ForcedCallReader` reads it.

    Raises `RecursionError` for a schema that is nested too deeply to rewrite.
    """
    # References in a schema start at its root, which here is a definition of a larger one.
    definitions = {
        f"tool_{i}": _moved(_closed(tool.parameters), f"#/$defs/tool_{i}")
        for i, tool in enumerate(tools)
    }
    calls = [_call_schema(tool.name, f"#/$defs/tool_{i}") for i, tool in enumerate(tools)]
    schema = {"anyOf": calls} if len(calls) > 1 else calls[0]
    return Grammar("json_schema", json.dumps({**schema, "$defs": definitions}))


class ForcedCallReader:
    """Implements `pieces.AnswerReader` for an answer that `forced_call` has shaped."""

    def __init__(self) -> None:
        self._text = ""

    def feed(self, text: str) -> list[Piece]:
        self._text += text
        return []

    def finish(self, *, is_cut: bool = False) -> list[Piece]:
        text, self._text = self._text, ""
        try:
            call = json.loads(text)
        except ValueError:
            return [] if is_cut or not text else [Said(text)]
        return [Called(call["name"], json.dumps(call["arguments"], ensure_ascii=False))]


def _call_schema(name: str, parameters: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": {"$ref": parameters}},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _closed(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same parameters and no others, unless the schema has a word for others."""
    is_plain = set(parameters) <= {
        "type",
        "properties",
        "required",
        "description",
        "title",
        "$defs",
    }
    return {**parameters, "additionalProperties": False} if is_plain else parameters


def _moved(schema: Any, root: str) -> Any:
    """The same schema for a place where `root` is what "#" was."""
    if isinstance(schema, Mapping):
        return {
            key: root + value[1:]
            if key == "$ref" and isinstance(value, str) and value.startswith("#")
            else _moved(value, root)
            for key, value in schema.items()
        }
    if isinstance(schema, list):
        return [_moved(item, root) for item in schema]
    return schema
