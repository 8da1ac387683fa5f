"""How each family of models writes a call: the text between two marks → `Called`.

Every reader raises `ValueError` for what is no call of its form, and `Unfinished` where the text
ends inside a value.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgekv.service.pieces import Called, ToolSchemas
from edgekv.service.regions import CallsReader, Unfinished


def json_calls(text: str, tools: ToolSchemas) -> list[Called]:
    """{"name": "f", "arguments": {…}}, or a list of them, or several with ";" between them."""
    values = _json_values(text, between=";")
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    return [_called(value) for value in values]


def offered(reader: CallsReader, start: str = "", end: str = "") -> CallsReader:
    """What `reader` finds between `start` and `end`, if all of it are tools that were offered.

    For families without marks of their own: only the names tell a call from other JSON.
    """

    def read(text: str, tools: ToolSchemas) -> Sequence[Called]:
        calls = reader(start + text.strip().removesuffix(end), tools)
        if any(call.name not in tools for call in calls):
            raise ValueError("no such tool")
        return calls

    return read


def named_json(form: str) -> CallsReader:
    """`form` is an expression with the groups `name` and `arguments`, the latter a JSON object."""
    expression = re.compile(form, re.DOTALL)

    def read(text: str, _: ToolSchemas) -> list[Called]:
        match = expression.fullmatch(text.strip())
        if match is None:
            raise ValueError("not of this form")
        (arguments,) = _json_values(match["arguments"])
        return [_call(match["name"], arguments)]

    return read


def either(*readers: CallsReader) -> CallsReader:
    """The first that finds a call."""

    def read(text: str, tools: ToolSchemas) -> Sequence[Called]:
        is_unfinished = False
        for reader in readers:
            try:
                return reader(text, tools)
            except Unfinished:
                is_unfinished = True
            except ValueError:
                continue
        raise Unfinished if is_unfinished else ValueError("no call")

    return read


def tagged(
    function: str, parameter: str, end: str, name_of: Callable[[str], str] = str.strip
) -> CallsReader:
    """A name, then parameters one by one. A value is JSON unless its schema says it is a text.

    `function` has the group `name` and matches at the start; `parameter` has `key`, `value` and,
    where the form says itself what the value is, `text` or `data`. `name_of` reads names and keys.
    """
    head, one, tail = (re.compile(x, re.DOTALL) for x in (function, parameter, end))

    def read(text: str, tools: ToolSchemas) -> list[Called]:
        match = head.match(text)
        if match is None:
            raise ValueError("no name")
        name, at = name_of(match["name"]), match.end()
        arguments: dict[str, Any] = {}
        while found := one.match(text, at):
            key = name_of(found["key"])
            arguments[key] = _value(found, _is_text(tools, name, key))
            at = found.end()
        if tail.fullmatch(text, at) is None:
            raise Unfinished
        return [_call(name, arguments)]

    return read


def unescaped(attribute: str) -> str:
    """The text of an attribute between quotation marks."""
    return attribute.replace("&quot;", '"').replace("&amp;", "&")


def pythonic(text: str, tools: ToolSchemas) -> list[Called]:
    """[f(a=1), g(b="x")] with literals for values."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, MemoryError, RecursionError):
        raise ValueError("not Python") from None
    calls = tree.elts if isinstance(tree, ast.List) else [tree]
    if not calls:
        raise ValueError("no call")
    return [_pythonic_call(call) for call in calls]


def _pythonic_call(call: ast.expr) -> Called:
    if not isinstance(call, ast.Call) or call.args:
        raise ValueError("not a call with named arguments")
    arguments: dict[str, Any] = {}
    for keyword in call.keywords:
        if keyword.arg is None:
            raise ValueError("an argument without a name")
        arguments[keyword.arg] = _literal(keyword.value)
    return _call(ast.unparse(call.func), arguments)


_WORDS = {
    **{"true": True, "false": False, "null": None},
    **{"True": True, "False": False, "None": None},
}
"""Python's and JSON's, which models mix up."""


def _literal(value: ast.expr) -> Any:
    if isinstance(value, ast.Name) and value.id in _WORDS:
        return _WORDS[value.id]
    return ast.literal_eval(value)


def braced(quote: str) -> CallsReader:
    """call:name{key:value, …}: JSON without quotes around keys and with `quote` around texts."""

    def read(text: str, _: ToolSchemas) -> list[Called]:
        if text.count(quote) % 2:
            raise Unfinished
        match = re.fullmatch(
            r"\s*call:(?P<name>[^{\s]+)\s*(?P<arguments>\{.*\})\s*", text, re.DOTALL
        )
        if match is None:
            raise ValueError("not of this form")
        parts = match["arguments"].split(quote)
        # Texts stand at the odd places; the others hold keys, numbers and brackets.
        written = "".join(
            json.dumps(part) if i % 2 else re.sub(r"([{,])\s*([^{}\[\],:\"]+?)\s*:", _quoted, part)
            for i, part in enumerate(parts)
        )
        (arguments,) = _json_values(written)
        return [_call(match["name"], arguments)]

    return read


def _quoted(match: re.Match[str]) -> str:
    return f"{match[1]}{json.dumps(match[2])}:"


def _called(value: object) -> Called:
    if not isinstance(value, dict):
        raise ValueError("not an object")
    arguments = value.get("arguments", value.get("parameters"))
    if isinstance(arguments, str):
        (arguments,) = _json_values(arguments)
    return _call(value.get("name"), arguments)


def _call(name: object, arguments: object) -> Called:
    if not isinstance(name, str) or not name or not isinstance(arguments, Mapping):
        raise ValueError("no name, or arguments that are no object")
    return Called(name, json.dumps(arguments, ensure_ascii=False))


def _json_values(text: str, between: str | None = None) -> list[Any]:
    """The JSON values in `text`, of which only one may be without `between`."""
    decode = json.JSONDecoder(parse_constant=_no_number).raw_decode
    values, text = [], text.strip()
    while True:
        try:
            value, end = decode(text)
        except json.JSONDecodeError as error:
            if error.msg.startswith("Unterminated string"):
                raise Unfinished from None
            raise
        values.append(value)
        text = text[end:].strip()
        if not text:
            return values
        if between is None or not text.startswith(between):
            raise ValueError("something follows")
        text = text[len(between) :].strip()


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _value(found: re.Match[str], is_text: bool) -> Any:
    """A parameter's value; `is_text` counts where the form says nothing."""
    text, says = found["value"], found.groupdict()
    if says.get("text") or (is_text and not says.get("data")):
        return text
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return _WORDS.get(text, text)


def _is_text(tools: ToolSchemas, name: str, key: str) -> bool:
    properties = tools.get(name, {}).get("properties")
    schema = properties.get(key) if isinstance(properties, Mapping) else None
    return isinstance(schema, Mapping) and schema.get("type") == "string"
