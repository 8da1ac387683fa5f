"""What cannot be honoured is refused by name, always as JSON."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from edgekv.core.events import AnswerStream, Started
from edgekv.core.frames import Submit
from edgekv.core.request import RequestId
from edgekv.errors import Overloaded
from edgekv.server import bodies, completions
from edgekv.server.schema import IGNORED, NEUTRAL
from edgekv.service.states import State
from edgekv.service.worker import Worker

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
HI: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]


TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f"}}


async def refusal(client: httpx.AsyncClient, body: object, status: int = 400) -> dict[str, Any]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return error_of(await client.post(CHAT, content=content), status)


def error_of(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"].endswith(".")
    assert isinstance(error, dict)
    return error


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_token": 3}, "max_token"),
        ({"best_of": 2}, "best_of"),
        ({"suffix": "x"}, "suffix"),
        ({"cache_prompt": False}, "cache_prompt"),
        ({"store": True}, "store"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"functions": [{"name": "f"}]}, "functions"),
    ],
)
async def test_a_field_that_is_not_supported_is_named(
    client: httpx.AsyncClient, fields: dict[str, Any], param: str
) -> None:
    error = await refusal(client, {"messages": HI, **fields})
    assert (error["param"], error["code"]) == (param, "unsupported_parameter")
    assert f"'{param}'" in error["message"]


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 1, "store": False, "logprobs": False, "tools": [], "tool_choice": "auto"},
        {"response_format": {"type": "text"}, "modalities": ["text"], "service_tier": "auto"},
        {"parallel_tool_calls": True, "cache_prompt": True, "best_of": 1, "suffix": ""},
        dict.fromkeys(IGNORED, "x"),
        dict.fromkeys(NEUTRAL, None),
        dict.fromkeys(("temperature", "stop", "seed", "logit_bias", "stream", "model"), None),
    ],
)
async def test_a_field_that_asks_for_what_happens_anyway_is_accepted(
    client: httpx.AsyncClient, fields: dict[str, Any]
) -> None:
    assert (await client.post(CHAT, json={"messages": HI, **fields})).status_code == 200


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 2**31}, "max_tokens"),
        ({"max_tokens": 3.5}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_completion_tokens": -7}, "max_completion_tokens"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"min_p": -1}, "min_p"),
        ({"seed": 2**63}, "seed"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"frequency_penalty": -3}, "frequency_penalty"),
        ({"repeat_penalty": 0}, "repeat_penalty"),
        ({"repeat_penalty": 1e-300}, "repeat_penalty"),
        ({"stop": ""}, "stop"),
        ({"stop": ["a", ""]}, "stop[1]"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"logit_bias": {"5": 101}}, "logit_bias[...]"),
        ({"logit_bias": {"259": 1}}, "logit_bias"),
        ({"logit_bias": {"-1": 1}}, "logit_bias"),
        ({"logit_bias": {"two": 1}}, "logit_bias"),
        ({"logit_bias": {"05": 1, "5": 2}}, "logit_bias"),
        ({"logit_bias": {"²": 1}}, "logit_bias"),
        ({"logit_bias": {"9" * 5000: 1}}, "logit_bias"),
        ({"priority": "urgent"}, "priority"),
        ({"n": 0}, "n"),
        ({"n": 17}, "n"),
        ({"n": True}, "n"),
        ({"logprobs": 3}, "logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"response_format": {"type": "json_object"}, "tools": [TOOL]}, "response_format"),
        ({"tools": [{"type": "function"}]}, "tools[0]"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [TOOL, TOOL]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "sometimes", "tools": [TOOL]}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
        ({"reasoning_effort": "high"}, "reasoning_effort"),
        ({"reasoning_effort": "utmost"}, "reasoning_effort"),
        ({"stream": "yes"}, "stream"),
    ],
)
async def test_a_value_out_of_range_is_named(
    client: httpx.AsyncClient, fields: dict[str, Any], param: str
) -> None:
    error = await refusal(client, {"messages": HI, **fields})
    assert (error["param"], error["code"]) == (param, "invalid_value")


CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"role": "user", "content": None}, "null next to tool_calls"),
        ({"role": "user"}, "null next to tool_calls"),
        ({"role": "assistant", "content": None, "tool_calls": []}, "null next to tool_calls"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {}}]}, "the image out"),
        ({"role": "user", "content": [{"type": "input_audio"}]}, "the audio out"),
        ({"role": "user", "content": [{"type": "text"}]}, "holds a text"),
        ({"role": "user", "content": [{"type": "text", "text": "a", "file": 1}]}, "nothing else"),
        ({"role": "robot", "content": "x"}, "robot"),
        ({"role": "user", "content": "x", "mood": "good"}, "mood"),
        ({"role": "user", "content": "x", "tool_calls": [CALL]}, "only an assistant"),
        ({"role": "user", "content": "x", "tool_call_id": "1"}, "belongs to the role 'tool'"),
        ({"role": "tool", "content": "x"}, "belongs to the role 'tool'"),
        ({"role": "assistant", "content": "x", "refusal": "no"}, "refusal"),
    ],
)
async def test_a_message_that_cannot_be_read_is_named(
    client: httpx.AsyncClient, message: dict[str, Any], words: str
) -> None:
    error = await refusal(client, {"messages": [message]})
    assert error["param"].startswith("messages[0]")
    assert words in error["message"]


@pytest.mark.parametrize("arguments", ["{", "[]", "3", "", "[" * 100_000])
async def test_broken_arguments_in_the_history_are_refused(
    client: httpx.AsyncClient, arguments: str
) -> None:
    call = {**CALL, "function": {"name": "f", "arguments": arguments}}
    message = {"role": "assistant", "tool_calls": [call]}
    error = await refusal(client, {"messages": [message]})
    assert error["param"] == "messages[0].tool_calls[0].function.arguments"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"messages": [{"role": "user", "content": "\xff"}]}',
        b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"messages": NaN}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
)
async def test_a_body_that_is_no_json_object_is_refused(
    client: httpx.AsyncClient, body: bytes
) -> None:
    assert (await refusal(client, body))["code"] == "invalid_request"


async def test_messages_must_be_there(client: httpx.AsyncClient) -> None:
    assert "messages" in (await refusal(client, {}))["message"]
    assert (await refusal(client, {"messages": []}))["param"] == "messages"


async def test_a_body_over_the_limit_is_refused(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_LIMIT_BYTES", 1000)
    error = await refusal(client, {"messages": HI, "user": "x" * 1000}, status=413)
    assert error["code"] == "body_too_large"


async def test_a_body_that_is_announced_to_be_too_large_is_not_read(
    client: httpx.AsyncClient,
) -> None:
    async def body() -> AsyncGenerator[bytes]:
        pytest.fail("it was read")
        yield b""

    headers = {"Content-Length": str(bodies.BODY_LIMIT_BYTES + 1)}
    answer = await client.post(CHAT, content=body(), headers=headers)
    assert error_of(answer, 413)["code"] == "body_too_large"


async def test_a_body_counts_once_for_each_of_its_answers(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_LIMIT_BYTES", 1000)
    body = {"messages": HI, "user": "x" * 200, "n": 3}
    assert (await client.post(CHAT, json=body)).status_code == 200
    error = await refusal(client, {**body, "n": 4}, status=413)
    assert error["code"] == "body_too_large"
    assert "all its 4 answers" in error["message"]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"stream": True, "stream_options": {"x": 1}}, "stream_options.x"),
        ({"messages": [HI[0] | {"weight": 1}]}, "messages[0].weight"),
    ],
)
async def test_an_unknown_field_is_named_wherever_it_stands(
    client: httpx.AsyncClient, fields: dict[str, Any], name: str
) -> None:
    error = await refusal(client, {"messages": HI, **fields})
    assert (error["code"], error["param"]) == ("unsupported_parameter", name)


async def test_unknown_paths_and_methods_are_answered_in_json(client: httpx.AsyncClient) -> None:
    assert error_of(await client.get("/v1/nothing"), 404)["code"] == "not_found"
    assert error_of(await client.get(CHAT), 405)["code"] == "method_not_allowed"
    assert error_of(await client.post("/health"), 405)["code"] == "method_not_allowed"


async def test_a_mistake_of_our_own_is_said_without_its_details(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(completions, "parse", break_down)
    # Its traceback goes to the server's log, not into the answer.
    transport = client._transport
    assert isinstance(transport, httpx.ASGITransport)
    transport.raise_app_exceptions = False
    error = await refusal(client, {"messages": HI}, status=500)
    assert error["code"] == "internal_error"
    assert "secret" not in error["message"]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_full_queue_is_said_with_the_wait(
    client: httpx.AsyncClient, worker: Worker, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    async def turn_away(_: Submit) -> AnswerStream:
        if worker.state is State.READY:
            raise Overloaded(num_waiting=9)
        yield Started(RequestId(""), 0, 0)  # only a yield makes it a generator

    monkeypatch.setattr(worker, "stream", turn_away)
    response = await client.post(CHAT, json={"messages": HI, "stream": stream})
    assert error_of(response, 429)["code"] == "overloaded"
    assert int(response.headers["retry-after"]) >= 1
