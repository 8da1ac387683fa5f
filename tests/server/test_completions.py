"""/v1/completions, /v1/models, /plan, /metrics and /health in this process."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from edgekv.service.worker import Worker
from tests.fakes import BOS

pytestmark = pytest.mark.anyio


async def complete(client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    return await client.post("/v1/completions", json=fields)


async def test_a_completion_has_openais_shape_and_default_length(
    client: httpx.AsyncClient,
) -> None:
    body = (await complete(client, prompt="abc", model="Fake")).json()
    assert body.pop("id").startswith("cmpl-")
    assert isinstance(body.pop("created"), int)
    assert body == {
        "object": "text_completion",
        "model": "fake-q8",
        "choices": [
            {
                "index": 0,
                "text": "Hello there, fri",
                "logprobs": None,
                "finish_reason": "length",
            }
        ],
        "usage": {
            "prompt_tokens": 4,
            "completion_tokens": 16,
            "total_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    }


async def test_a_streamed_completion_joins_to_the_same_text(client: httpx.AsyncClient) -> None:
    response = await complete(client, prompt="abc", stream=True, max_tokens=5)
    *chunks, done, _ = response.text.split("\n\n")
    choices = [json.loads(chunk.removeprefix("data: "))["choices"][0] for chunk in chunks]
    assert "".join(choice["text"] for choice in choices) == "Hello"
    assert choices[-1]["finish_reason"] == "length"
    assert done == "data: [DONE]"


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [
        ("Hello", 6),
        (["Hello"], 6),
        ("<|bos|>Hello", 6),
        ("한", 4),
        ("", 1),
        ([BOS, 72, 101], 3),
    ],
)
async def test_a_prompt_is_one_text_or_one_list_of_tokens(
    client: httpx.AsyncClient, prompt: object, tokens: int
) -> None:
    assert (await complete(client, prompt=prompt)).json()["usage"]["prompt_tokens"] == tokens


@pytest.mark.parametrize(
    "prompt",
    [[], [[]], ["a", 1], [1, "a"], [1, -1], [1, True], [259], [10**30], None, 3, {}, ["a"] * 65],
)
async def test_other_prompts_are_refused(client: httpx.AsyncClient, prompt: object) -> None:
    response = await complete(client, prompt=prompt)
    assert response.status_code == 400
    error = response.json()["error"]
    assert "prompt" in (str(error["param"]).partition("[")[0], *error["message"].split("`"))


async def test_a_prompt_that_is_too_long_is_named_as_the_prompt(client: httpx.AsyncClient) -> None:
    error = (await complete(client, prompt="x" * 512)).json()["error"]
    assert (error["code"], error["param"]) == ("context_length_exceeded", "prompt")


async def test_chat_only_fields_are_refused(client: httpx.AsyncClient) -> None:
    error = (await complete(client, prompt="a", max_completion_tokens=3)).json()["error"]
    assert error["param"] == "max_completion_tokens"


async def test_the_model_is_listed_with_its_context_length(client: httpx.AsyncClient) -> None:
    (card,) = (await client.get("/v1/models")).json()["data"]
    assert (card["id"], card["object"], card["context_length"]) == ("fake-q8", "model", 512)
    assert (await client.get("/v1/models/Fake")).json() == card
    missing = await client.get("/v1/models/owner/other")
    assert missing.status_code == 404
    assert "owner/other" in missing.json()["error"]["message"]


async def test_the_plan_stands_beside_what_was_measured(
    client: httpx.AsyncClient, worker: Worker
) -> None:
    plan = (await client.get("/plan")).json()
    assert plan["schema"] == 1
    assert plan["choice"]["context_length"] == 512
    assert {line["label"] for line in plan["lines"]} == {"weights", "kv"}
    assert worker.allocation is not None
    assert [b["bytes"] for b in plan["measured"]] == [b.bytes for b in worker.allocation.buffers]


async def metrics(client: httpx.AsyncClient) -> dict[tuple[str, ...], float]:
    """Name and label values → value."""
    response = await client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


async def test_metrics_tell_of_cells_tokens_times_and_memory(client: httpx.AsyncClient) -> None:
    before = await metrics(client)
    assert before["edgekv_cells", "free"] == 0  # the engine has not spoken yet
    for _ in range(2):
        await complete(client, prompt="abcde", max_tokens=4)
    await complete(client, prompt="abcde", max_tokens=4, stop="H")
    await complete(client, prompt="x" * 512)
    await client.get("/v1/models/other")  # asks for no answer, so it is none of those counted
    after = await metrics(client)
    assert all(name[0].startswith("edgekv_") for name in after)
    assert after["edgekv_cells", "free"] + after["edgekv_cells", "used"] == 1024
    assert after["edgekv_prompt_tokens_total", "computed"] == 6 + 1 + 1
    assert after["edgekv_prompt_tokens_total", "reused"] == 5 + 5
    assert after["edgekv_requests_total", "length"] == 2
    assert after["edgekv_requests_total", "stop"] == 1
    assert after["edgekv_requests_total", "refused"] == 1
    assert after["edgekv_first_token_seconds_count",] == 2
    assert after["edgekv_token_gap_seconds_count",] == 6
    assert after["edgekv_suspensions_total",] == after["edgekv_suspended",] == 0
    assert after["edgekv_store_bytes", "host"] == 0
    assert after["edgekv_memory_planned_bytes", "CPU", "kv"] == 20
    assert after["edgekv_memory_measured_bytes", "CPU", "kv"] == 1024 * 1024
    assert after["edgekv_engine_resident_bytes",] == 54321
    assert after["edgekv_engine_restarts_total",] == 0


async def test_health_says_that_the_model_is_ready(client: httpx.AsyncClient) -> None:
    response = await client.get("/health")
    assert (response.status_code, response.json()) == (200, {"status": "ready"})


async def test_every_prompt_gets_its_answers_in_order(client: httpx.AsyncClient) -> None:
    body = (await complete(client, prompt=["a", [98, 99]], n=2, max_tokens=3)).json()
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]
    assert {choice["text"] for choice in body["choices"]} == {"Hel"}
    usage = body["usage"]
    # Each prompt counts once, with the start token that a text gets.
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (2 + 2, 4 * 3)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_echo_stands_before_the_answer(client: httpx.AsyncClient, stream: bool) -> None:
    asked = {"prompt": ["ab ", [99, 32]], "echo": True, "max_tokens": 2, "stream": stream}
    response = await complete(client, **asked)
    if not stream:
        assert [c["text"] for c in response.json()["choices"]] == ["ab He", "c He"]
        return
    chunks = [json.loads(e.removeprefix("data: ")) for e in response.text.split("\n\n")[:-2]]
    for index, text in enumerate(["ab He", "c He"]):
        choices = [c for chunk in chunks for c in chunk["choices"] if c["index"] == index]
        assert "".join(choice["text"] for choice in choices) == text


async def test_an_echo_has_no_likelihoods(client: httpx.AsyncClient) -> None:
    error = (await complete(client, prompt="a", echo=True, logprobs=0)).json()["error"]
    assert error["param"] == "echo"
