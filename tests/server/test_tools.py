"""Tools and thoughts over HTTP, on the strict fake, which says what a model would."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.fakes import CHAT_TEMPLATE, FakeLibrary
from tests.server.test_chat import events

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("knowing_template")]

HI = [{"role": "user", "content": "How warm is it?"}]
TOOLS = [{"type": "function", "function": {"name": "warmth", "parameters": {"type": "object"}}}]
CALL = '<tool_call>{"name": "warmth", "arguments": {"room": "é"}}</tool_call>'
TWO_CALLS = f"Let me look.\n{CALL}\n{CALL}"


@pytest.fixture
def knowing_template(library: FakeLibrary) -> None:
    """A template that knows tools and says little of them, as there is room for 512 bytes only."""
    library.chat_template = CHAT_TEMPLATE + "{# tools #}"


async def ask(client: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    body = {"messages": HI, "tools": TOOLS, "max_tokens": 400, **fields}
    response = await client.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    (choice,) = response.json()["choices"]
    assert isinstance(choice, dict)
    return choice


@pytest.mark.parametrize("library", [TWO_CALLS], indirect=True)
async def test_calls_stand_beside_the_words(client: httpx.AsyncClient) -> None:
    choice = await ask(client)
    message = choice["message"]
    assert choice["finish_reason"] == "tool_calls"
    assert message["content"] == "Let me look."
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["warmth"] * 2
    assert json.loads(message["tool_calls"][1]["function"]["arguments"]) == {"room": "é"}
    assert len({call["id"] for call in message["tool_calls"]}) == 2


@pytest.mark.parametrize("library", [CALL], indirect=True)
async def test_an_answer_of_calls_has_no_content(client: httpx.AsyncClient) -> None:
    assert (await ask(client))["message"]["content"] is None


@pytest.mark.parametrize("library", [TWO_CALLS], indirect=True)
async def test_a_streamed_call_has_its_index_and_its_id_once(client: httpx.AsyncClient) -> None:
    body = {"messages": HI, "tools": TOOLS, "stream": True, "max_tokens": 400}
    chunks = events(await client.post("/v1/chat/completions", json=body))
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("content") or "" for delta in deltas) == "Let me look."
    calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
    assert [call["index"] for call in calls] == [0, 1]
    assert all(json.loads(call["function"]["arguments"]) == {"room": "é"} for call in calls)
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("library", [TWO_CALLS], indirect=True)
@pytest.mark.parametrize("n", [1, 2])
async def test_without_parallel_calls_an_answer_ends_behind_the_first(
    client: httpx.AsyncClient, n: int
) -> None:
    body = {"messages": HI, "tools": TOOLS, "parallel_tool_calls": False, "n": n}
    answer = (await client.post("/v1/chat/completions", json=body)).json()
    for choice in answer["choices"]:
        assert len(choice["message"]["tool_calls"]) == 1
        assert choice["finish_reason"] == "tool_calls"
    assert answer["usage"]["completion_tokens"] <= n * len(TWO_CALLS.encode())


@pytest.mark.parametrize("library", [CALL], indirect=True)
@pytest.mark.parametrize("fields", [{"tools": None}, {"tool_choice": "none"}])
async def test_where_no_call_is_allowed_its_marks_are_words(
    client: httpx.AsyncClient, fields: dict[str, Any]
) -> None:
    message = (await ask(client, **fields))["message"]
    assert message["content"] == CALL
    assert "tool_calls" not in message


@pytest.mark.parametrize("library", [CALL], indirect=True)
async def test_a_call_that_was_cut_is_neither_a_call_nor_words(client: httpx.AsyncClient) -> None:
    choice = await ask(client, max_tokens=20)
    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"] == ""
    assert "tool_calls" not in choice["message"]


async def test_the_prompt_of_a_conversation_can_be_seen(client: httpx.AsyncClient) -> None:
    response = await client.post("/apply-template", json={"messages": HI, "tools": TOOLS})
    said = HI[0]["content"]
    assert response.json() == {
        "prompt": f"<|im_start|>user\n{said}<|im_end|>\n<|im_start|>assistant\n"
    }


async def test_tokens_and_texts_become_each_other(client: httpx.AsyncClient) -> None:
    tokens = (await client.post("/tokenize", json={"content": "é<|im_end|>"})).json()["tokens"]
    assert len(tokens) == 1 + 2 + len("<|im_end|>")
    text = (await client.post("/detokenize", json={"tokens": tokens})).json()
    assert text == {"content": "é<|im_end|>"}
    special = {"content": "é<|im_end|>", "parse_special": True}
    assert len((await client.post("/tokenize", json=special)).json()["tokens"]) == 1 + 2 + 1


async def test_the_cells_can_be_seen(client: httpx.AsyncClient) -> None:
    await ask(client)
    view = (await client.get("/kv")).json()
    assert view["num_cells"] == 1024
    assert [start["num_reused"] for start in view["starts"]] == [0]
    assert view["runs"][0]["num_cells"] > 0
