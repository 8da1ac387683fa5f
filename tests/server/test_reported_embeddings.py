"""Texts to embed that other servers cut, lost or broke down on, sent as they were reported.

`tests/data/requests/README.md` names the reports.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.served import serve
from tests.server.test_reported_faults import CHAT, body, refusal, whole

pytestmark = pytest.mark.llama

EMBED = "/v1/embeddings"
LENGTH = 576
"""Of the starter model's vectors."""


@pytest.fixture(scope="module")
def client(starter_model: Path) -> Iterator[httpx.Client]:
    with (
        serve(starter_model, "--ctx", "512", "--slots", "2", "--embeddings") as served,
        httpx.Client(base_url=served.url, timeout=120) as client,
    ):
        yield client
        # Whatever was sent, the engine is the one that was started.
        assert "edgekv_engine_restarts_total 0.0" in client.get("/metrics").text


def vectors(client: httpx.Client, case: str) -> list[Any]:
    return [item["embedding"] for item in whole(client, body(f"embeddings/{case}"), EMBED)["data"]]


def test_a_text_has_one_flat_vector(client: httpx.Client) -> None:
    (vector,) = vectors(client, "one")
    assert len(vector) == LENGTH
    assert all(isinstance(number, float) for number in vector)
    assert sum(number * number for number in vector) == pytest.approx(1, abs=1e-4)


def test_texts_and_tokens_are_embedded_in_order(client: httpx.Client) -> None:
    first, second, third = vectors(client, "list")
    assert first == third != second
    assert [len(vector) for vector in vectors(client, "token_lists")] == [LENGTH] * 2
    assert [len(vector) for vector in vectors(client, "tokens")] == [LENGTH]


def test_base64_is_four_bytes_a_number(client: httpx.Client) -> None:
    (text,) = vectors(client, "base64")
    assert len(base64.b64decode(text)) == LENGTH * 4


def test_a_long_text_is_embedded_whole(client: httpx.Client) -> None:
    assert whole(client, body("embeddings/long_600"), EMBED)["usage"]["prompt_tokens"] >= 600


@pytest.mark.parametrize(
    ("case", "param"),
    [
        ("empty", "input"),
        ("empty_list", "input"),
        ("list_with_empty", "input"),
        ("nulls", "input[0]"),
        ("number", "input"),
        ("tokens_oob", "input"),
        ("tokens_negative", "input"),
        ("bad_format", "encoding_format"),
        ("dimensions", "dimensions"),
    ],
)
def test_what_cannot_be_embedded_is_refused(client: httpx.Client, case: str, param: str) -> None:
    assert refusal(client, body(f"embeddings/{case}"), EMBED)["param"].startswith(param)


def test_a_text_without_room_is_refused_with_both_numbers(client: httpx.Client) -> None:
    error = refusal(client, {"input": "word " * 9000}, EMBED)
    assert error["param"] == "input"
    assert "9001" in error["message"] or "9000" in error["message"]


def test_an_answer_goes_on_while_texts_are_embedded(client: httpx.Client) -> None:
    messages = [{"role": "user", "content": "Count."}]
    fields = {"messages": messages, "stream": True, "max_tokens": 100, "ignore_eos": True}
    with client.stream("POST", CHAT, json=fields) as stream:
        lines = (line for line in stream.iter_lines() if line.startswith("data: {"))
        next(lines)
        assert len(vectors(client, "list")) == 3
        last = [json.loads(line.removeprefix("data: ")) for line in lines][-1]
    assert last["choices"][0]["finish_reason"] == "length"
