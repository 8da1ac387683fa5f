"""Tools for models whose chat template knows of none, in words that any model may understand.

The words are those that Hermes models were trained with, so that their marks can be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from edgekv.service.messages import Message, ToolCall
from edgekv.service.tools import Tool

_INTRODUCTION = """\
You may call one or more of these functions to help with the user's request.
<tools>
{tools}
</tools>
For each call, answer with a JSON object of the function's name and its arguments within tags:
<tool_call>
{{"name": "function name", "arguments": {{"argument name": "value"}}}}
</tool_call>"""


def introduced(messages: Sequence[Message], tools: Sequence[Tool]) -> list[Message]:
    """The same conversation, whose system message tells of the tools."""
    if not tools:
        return list(messages)
    listed = "\n".join(json.dumps(as_listed(tool), ensure_ascii=False) for tool in tools)
    introduction = _INTRODUCTION.format(tools=listed)
    if messages and messages[0].role == "system":
        first = replace(messages[0], content=f"{messages[0].content}\n\n{introduction}")
        return [first, *messages[1:]]
    return [Message("system", introduction), *messages]


def as_listed(tool: Tool) -> dict[str, Any]:
    """The shape that transformers gives to templates."""
    described = {"description": tool.description} if tool.description else {}
    return {
        "type": "function",
        "function": {"name": tool.name, **described, "parameters": tool.parameters},
    }


def without_calls(messages: Sequence[Message]) -> Iterator[Message]:
    """The same conversation in nothing but texts of the system, the user and the model."""
    results: list[str] = []
    for message in messages:
        if message.role == "tool":
            results.append(f"<tool_response>\n{message.content}\n</tool_response>")
            continue
        if results:  # of calls made together: many templates want roles to take turns
            yield Message("user", "\n".join(results))
            results = []
        yield _with_calls(message) if message.tool_calls else message
    if results:
        yield Message("user", "\n".join(results))


def _with_calls(message: Message) -> Message:
    calls = "\n".join(map(_call, message.tool_calls))
    content = f"{message.content}\n{calls}" if message.content else calls
    return Message("assistant", content, message.name)


def _call(call: ToolCall) -> str:
    written = json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)
    return f"<tool_call>\n{written}\n</tool_call>"
