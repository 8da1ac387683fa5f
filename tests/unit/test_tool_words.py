"""Tools as a chat template sees them."""

from __future__ import annotations

import pytest

from edgekv.service.messages import Message, ToolCall
from edgekv.service.tools import Tool
from tests.unit.test_templates import CHATML, Make, plain, whole
from tests.unit.test_templates import anyio_backend as anyio_backend
from tests.unit.test_templates import make as make

pytestmark = pytest.mark.anyio


TALK = [
    Message("system", "Be brief."),
    Message("user", "How warm is it?"),
    Message(
        "assistant",
        tool_calls=(ToolCall("1", "warmth", {"room": "a"}), ToolCall("2", "warmth", {"room": "b"})),
    ),
    Message("tool", "20", tool_call_id="1"),
    Message("tool", "21", tool_call_id="2"),
]
WARMTH = Tool("warmth", "how warm a room is", {"type": "object"})


async def test_a_template_that_knows_no_tools_is_told_of_them_in_words(make: Make) -> None:
    text = whole(await make(CHATML).prompt(TALK, [WARMTH]))
    system, user, calls, results, _ = text.split("<|im_start|>")[1:]
    assert system.startswith("system\nBe brief.")
    assert '"name": "warmth"' in system
    assert user == "user\nHow warm is it?<|im_end|>\n"
    assert calls.count("<tool_call>") == 2
    assert '{"name": "warmth", "arguments": {"room": "b"}}' in calls
    assert results.startswith("user\n<tool_response>\n20\n</tool_response>\n<tool_response>\n21")


async def test_a_template_that_knows_tools_gets_them_in_transformers_shape(make: Make) -> None:
    text = whole(await make("{{ tools | tojson }}{{ messages | length }}").prompt(TALK, [WARMTH]))
    assert text == (
        '[{"type": "function", "function": {"name": "warmth", '
        '"description": "how warm a room is", "parameters": {"type": "object"}}}]5'
    )


async def test_without_calls_nothing_is_added(make: Make) -> None:
    said = [Message("user", "hi")]
    assert whole(await make(CHATML).prompt(said)) == (
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )


async def test_control_tokens_stay_text_in_the_arguments_of_a_call(make: Make) -> None:
    call = ToolCall("1", "find", {"<x>": ["a<x>", {"deep": "<x>"}], "n": 10**30})
    template = "{{ messages[0].tool_calls[0].function.arguments | tojson(ensure_ascii=True) }}"
    prompt = await make(template, ("<x>",)).prompt([Message("assistant", tool_calls=(call,))])
    assert whole(prompt) == '{"<x>": ["a<x>", {"deep": "<x>"}], "n": 1' + "0" * 30 + "}"
    assert plain(prompt) == ["<x>", "<x>", "<x>"]
