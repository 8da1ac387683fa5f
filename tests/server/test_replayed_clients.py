"""Requests of the shape that programs send which the tests cannot install."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from tests.fakes import CHAT_TEMPLATE, FakeLibrary

pytestmark = pytest.mark.anyio

ANSWER = "Hello there, friend."
READ = {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "absolute"}},
    "required": ["path"],
    "additionalProperties": False,
    "$schema": "http://json-schema.org/draft-07/schema#",
}
OPEN_WEBUI = {
    "stream": True,
    "model": "fake-q8",
    "messages": [{"role": "user", "content": "hi"}],
    "stream_options": {"include_usage": True},
}
OPEN_WEBUI_TITLE = {
    "model": "fake-q8",
    "messages": [{"role": "user", "content": "### Task:\nGenerate a title."}],
    "stream": False,
    "max_completion_tokens": 1000,
}
CONTINUE = {
    "messages": [
        {"role": "system", "content": "You are in chat mode."},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    ],
    "model": "local",
    "max_tokens": 4096,
    "stream": True,
    "tools": [{"type": "function", "function": {"name": "read_file", "parameters": READ}}],
    "parallel_tool_calls": False,
}
CLINE = {
    "model": "local",
    "messages": [
        {"role": "system", "content": "You are Cline."},
        {"role": "user", "content": [{"type": "text", "text": "<task>\nhi\n</task>"}]},
    ],
    "temperature": 0,
    "stream": True,
    "stream_options": {"include_usage": True},
}
CLAUDE_CODE = {
    "model": "local",
    "max_tokens": 32000,
    "temperature": 1,
    "stream": True,
    "system": [
        {"type": "text", "text": "You help.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<system-reminder>\n</system-reminder>"},
                {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}},
            ],
        }
    ],
    "tools": [{"name": "Read", "description": "Reads.", "input_schema": READ}],
    "metadata": {"user_id": "user_0_account__session_0"},
    "thinking": {"type": "enabled", "budget_tokens": 31999},
}


@pytest.fixture
def library() -> FakeLibrary:
    # A template that knows tools and says little of them, as there is room for 512 bytes only.
    return FakeLibrary(ANSWER, CHAT_TEMPLATE + "{# tools #}")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", OPEN_WEBUI),
        ("/v1/chat/completions", OPEN_WEBUI_TITLE),
        ("/v1/chat/completions", CONTINUE),
        ("/v1/chat/completions", CLINE),
        ("/v1/messages?beta=true", CLAUDE_CODE),
    ],
    ids=["open-webui", "open-webui-title", "continue", "cline", "claude-code"],
)
async def test_what_programs_send_is_answered(
    client: httpx.AsyncClient, path: str, body: dict[str, Any]
) -> None:
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "claude-code-20250219"}
    response = await client.post(path, json=body, headers=headers)
    assert response.status_code == 200, response.text
    # Whole, or one character an event.
    assert ANSWER in "".join(re.findall(r'"(?:content|text)":"([^"]*)"', response.text))


async def test_a_tool_that_only_its_maker_can_run_is_named(client: httpx.AsyncClient) -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    response = await client.post("/v1/messages", json={**CLAUDE_CODE, "tools": [search]})
    assert response.status_code == 400
    assert response.json()["error"]["param"].startswith("tools[0]")
