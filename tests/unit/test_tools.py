"""Grammars that make an answer a call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jsonschema
import pytest

from edgekv.service.pieces import Called, Said
from edgekv.service.tools import ForcedCallReader, Tool, forced_call

NOW = Tool("now")
WARMTH = Tool(
    "warmth",
    "",
    {
        "$defs": {"room": {"enum": ["hall", "kitchen"]}},
        "type": "object",
        "properties": {"room": {"$ref": "#/$defs/room"}, "inner": {"$ref": "#"}},
        "required": ["room"],
    },
)


def fits(tools: list[Tool], name: str, arguments: Mapping[str, Any]) -> bool:
    schema = json.loads(forced_call(tools).text)
    validator = jsonschema.Draft202012Validator(schema)
    return bool(validator.is_valid({"name": name, "arguments": arguments}))


@pytest.mark.parametrize(
    ("name", "arguments", "fit"),
    [
        ("warmth", {"room": "hall"}, True),
        ("warmth", {"room": "hall", "inner": {"room": "kitchen"}}, True),
        ("warmth", {"room": "attic"}, False),
        ("warmth", {"room": "hall", "inner": {"room": "attic"}}, False),
        ("warmth", {"room": "hall", "floor": 1}, False),
        ("now", {}, True),
        ("now", {"room": "hall"}, False),
        ("then", {}, False),
    ],
)
def test_a_forced_call_fits_its_tool(name: str, arguments: dict[str, Any], fit: bool) -> None:
    assert fits([NOW, WARMTH], name, arguments) is fit


def test_a_schema_that_speaks_of_other_properties_is_kept() -> None:
    open_tool = Tool("f", "", {"type": "object", "additionalProperties": {"type": "integer"}})
    assert fits([open_tool], "f", {"any": 3})
    assert not fits([open_tool], "f", {"any": "x"})


def test_a_forced_answer_is_a_call_or_what_was_cut() -> None:
    reader = ForcedCallReader()
    assert reader.feed('{"name":"f","argum') == []
    assert reader.feed('ents":{"a":"é"}}') == []
    assert reader.finish() == [Called("f", '{"a": "é"}')]
    assert reader.feed('{"name":') == []
    assert reader.finish() == [Said('{"name":')]
    assert reader.finish() == []
