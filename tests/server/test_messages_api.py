"""/v1/messages, /v1/responses and /v1/embeddings in this process, on the strict fake."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.fakes import CHAT_TEMPLATE, FakeLibrary

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("knowing_template")]

ANSWER = "Hello there, friend."
CALL = '<tool_call>{"name": "warmth", "arguments": {"room": 3}}</tool_call>'
HI = [{"role": "user", "content": "hi"}]


@pytest.fixture
def knowing_template(library: FakeLibrary, request: pytest.FixtureRequest) -> None:
    """A template that knows tools and says little of them, as there is room for 512 bytes only."""
    library.chat_template = CHAT_TEMPLATE + "{# tools #}" + getattr(request, "param", "")


def named_events(response: httpx.Response) -> list[dict[str, Any]]:
    """The events of a stream, each of which has its type for a name."""
    assert response.status_code == 200, response.text
    found = []
    for block in response.text.split("\n\n")[:-1]:
        name, data = block.split("\n")
        value = json.loads(data.removeprefix("data: "))
        assert name == f"event: {value['type']}"
        found.append(value)
    return found


async def message(client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    return await client.post("/v1/messages", json={"max_tokens": 90, "messages": HI, **fields})


async def respond(client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    return await client.post("/v1/responses", json={"input": "hi", **fields})


WARMTH = {"name": "warmth", "input_schema": {"type": "object"}}
FLAT_WARMTH = {"type": "function", "name": "warmth", "parameters": {"type": "object"}}


async def test_a_message_has_anthropics_shape(client: httpx.AsyncClient) -> None:
    body = (await message(client, system="Be brief.")).json()
    assert body["content"] == [{"type": "text", "text": ANSWER}]
    assert (body["type"], body["role"], body["stop_reason"]) == ("message", "assistant", "end_turn")
    usage = body["usage"]
    assert usage["output_tokens"] == len(ANSWER)
    counted = await client.post(
        "/v1/messages/count_tokens", json={"messages": HI, "system": "Be brief."}
    )
    assert counted.json() == {"input_tokens": usage["input_tokens"]}


async def test_a_streamed_message_is_made_of_blocks(client: httpx.AsyncClient) -> None:
    events = named_events(await message(client, stream=True))
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    deltas = [e["delta"] for e in events if e["type"] == "content_block_delta"]
    assert "".join(delta["text"] for delta in deltas) == ANSWER


@pytest.mark.parametrize("library", [f"Wait. {CALL}"], indirect=True)
async def test_a_call_is_a_block_of_a_message(client: httpx.AsyncClient) -> None:
    body = (await message(client, tools=[WARMTH])).json()
    text, call = body["content"]
    assert text == {"type": "text", "text": "Wait."}
    assert (call["type"], call["name"], call["input"]) == ("tool_use", "warmth", {"room": 3})
    assert body["stop_reason"] == "tool_use"
    events = named_events(await message(client, tools=[WARMTH], stream=True))
    starts = [e["content_block"] for e in events if e["type"] == "content_block_start"]
    assert [start["type"] for start in starts] == ["text", "tool_use"]
    parts = [e["delta"]["partial_json"] for e in events if "partial_json" in e.get("delta", {})]
    assert json.loads("".join(parts)) == {"room": 3}


async def test_a_message_may_hold_results_and_words(client: httpx.AsyncClient) -> None:
    turns = [
        *HI,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": ""},
                {"type": "tool_use", "id": "t1", "name": "warmth", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "20", "is_error": False},
                {"type": "text", "text": "Well?", "cache_control": {"type": "ephemeral"}},
            ],
        },
    ]
    assert (await message(client, messages=turns, tools=[WARMTH])).status_code == 200


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image"}]}]},
            "messages[0].content[0]",
        ),
        (
            {"messages": [{"role": "assistant", "content": [RESULT]}]}
            if (RESULT := {"type": "tool_result", "tool_use_id": "1"})
            else {},
            "messages[0].content[0]",
        ),
        ({"tool_choice": {"type": "tool", "name": "x"}}, "tool_choice"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"thinking": {"type": "sometimes"}}, "thinking.type"),
        ({"output_config": {"effort": "high"}}, "output_config.effort"),
        ({"stop": "x"}, "stop"),
    ],
)
async def test_what_a_message_cannot_be_is_named(
    client: httpx.AsyncClient, fields: dict[str, Any], param: str
) -> None:
    response = await message(client, **fields)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


async def test_a_response_has_openais_shape(client: httpx.AsyncClient) -> None:
    body = (await respond(client)).json()
    assert (body["object"], body["status"]) == ("response", "completed")
    (item,) = body["output"]
    assert item["content"] == [
        {"type": "output_text", "text": ANSWER, "annotations": [], "logprobs": []}
    ]
    assert body["usage"]["output_tokens"] == len(ANSWER)


async def test_a_response_goes_on_from_an_earlier_one(client: httpx.AsyncClient) -> None:
    first = (await respond(client, instructions="Be brief.")).json()
    second = (await respond(client, previous_response_id=first["id"])).json()
    alone = (await respond(client)).json()
    # Instructions are not carried over, what was said is.
    assert second["usage"]["input_tokens"] > alone["usage"]["input_tokens"] + len(ANSWER)
    assert (await client.get(f"/v1/responses/{first['id']}")).json() == first
    assert (await client.delete(f"/v1/responses/{first['id']}")).json()["deleted"] is True
    assert (await client.get(f"/v1/responses/{first['id']}")).status_code == 404
    gone = await respond(client, previous_response_id=first["id"])
    assert gone.json()["error"]["param"] == "previous_response_id"


async def test_a_response_that_is_not_to_be_stored_is_not(client: httpx.AsyncClient) -> None:
    body = (await respond(client, store=False)).json()
    assert (await client.get(f"/v1/responses/{body['id']}")).status_code == 404


async def test_a_cut_response_is_incomplete(client: httpx.AsyncClient) -> None:
    body = (await respond(client, max_output_tokens=3)).json()
    assert body["status"] == "incomplete"
    assert body["incomplete_details"] == {"reason": "max_output_tokens"}


@pytest.mark.parametrize("library", [f"Wait. {CALL}"], indirect=True)
async def test_a_streamed_response_tells_of_its_items(client: httpx.AsyncClient) -> None:
    events = named_events(await respond(client, tools=[FLAT_WARMTH], stream=True))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    kinds = list(dict.fromkeys(event["type"].removeprefix("response.") for event in events))
    assert kinds == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "completed",
    ]
    text, call = events[-1]["response"]["output"]
    assert text["content"][0]["text"] == "Wait."
    assert (call["name"], json.loads(call["arguments"])) == ("warmth", {"room": 3})
    # Sent back with a result, as agents do that keep the conversation themselves.
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "20"}
    items = [{"role": "user", "content": "hi"}, text, call, result]
    assert (await respond(client, input=items, tools=[FLAT_WARMTH])).status_code == 200


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": []}, "input"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"content": "x"}]}, "input[0].role"),
        ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].arguments"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input[0].content[0]",
        ),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"truncation": "auto"}, "truncation"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"reasoning": {"effort": "high"}}, "reasoning_effort"),
    ],
)
async def test_what_a_response_cannot_be_is_named(
    client: httpx.AsyncClient, fields: dict[str, Any], param: str
) -> None:
    response = await respond(client, **fields)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stop_sequence_that_was_met_is_named(
    client: httpx.AsyncClient, stream: bool
) -> None:
    response = await message(client, stop_sequences=["friend", "there"], stream=stream)
    end = named_events(response)[-2]["delta"] if stream else response.json()
    assert (end["stop_reason"], end["stop_sequence"]) == ("stop_sequence", "there")


async def test_a_message_may_have_a_given_form(client: httpx.AsyncClient) -> None:
    form = {"type": "json_schema", "schema": {"type": "string"}}
    assert (await message(client, output_config={"format": form})).status_code == 200
    refused = await message(client, output_config={"format": form}, tools=[WARMTH])
    assert refused.json()["error"]["param"] == "output_config.format"


@pytest.mark.parametrize("knowing_template", ["{{ enable_thinking }}"], indirect=True)
@pytest.mark.parametrize(
    ("thinking", "shown"), [("disabled", "False"), ("enabled", "True"), ("adaptive", "True")]
)
async def test_thoughts_are_turned_on_and_off_where_the_template_can_be_told(
    client: httpx.AsyncClient, thinking: str, shown: str
) -> None:
    async def num_tokens(**fields: Any) -> int:
        body = {"messages": HI, **fields}
        counted = (await client.post("/v1/messages/count_tokens", json=body)).json()
        answered = (await message(client, **fields)).json()["usage"]
        assert counted["input_tokens"] == (
            answered["input_tokens"] + answered["cache_read_input_tokens"]
        )
        return int(counted["input_tokens"])

    told = await num_tokens(thinking={"type": thinking, "budget_tokens": 1024})
    assert told - await num_tokens() == len(shown)
