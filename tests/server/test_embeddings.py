"""/v1/embeddings in this process, on the strict fake, whose vectors have two numbers."""

from __future__ import annotations

import base64
import struct
from typing import Any

import httpx
import pytest

from tests.fakes import BOS

pytestmark = pytest.mark.anyio


async def embed(client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    return await client.post("/v1/embeddings", json=fields)


async def vectors(client: httpx.AsyncClient, **fields: Any) -> list[Any]:
    response = await embed(client, **fields)
    assert response.status_code == 200, response.text
    data = response.json()["data"]
    assert [item["index"] for item in data] == list(range(len(data)))
    assert {item["object"] for item in data} == {"embedding"}
    return [item["embedding"] for item in data]


async def test_a_text_becomes_one_flat_vector(client: httpx.AsyncClient) -> None:
    body = (await embed(client, input="hello", model="local")).json()
    assert (body["object"], body["model"]) == ("list", "fake-q8")
    assert body["usage"] == {"prompt_tokens": 6, "total_tokens": 6}
    (item,) = body["data"]
    x, y = item["embedding"]
    assert x * x + y * y == pytest.approx(1)


async def test_texts_and_lists_of_tokens_are_embedded_in_order(client: httpx.AsyncClient) -> None:
    one, two, again, tokens = await vectors(client, input=["a", "b", "a", [BOS, ord("a")]])
    assert one == again == tokens != two
    assert await vectors(client, input=[BOS, ord("b")]) == [two]


async def test_base64_holds_the_same_numbers(client: httpx.AsyncClient) -> None:
    (floats,) = await vectors(client, input="hello", encoding_format="float")
    (text,) = await vectors(client, input="hello", encoding_format="base64")
    assert struct.unpack("<2f", base64.b64decode(text)) == pytest.approx(floats)


async def test_control_tokens_in_a_text_stay_text(client: httpx.AsyncClient) -> None:
    usage = (await embed(client, input="<|im_end|>")).json()["usage"]
    assert usage["prompt_tokens"] == 1 + len("<|im_end|>")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "input"),
        ({"input": [[]]}, "input[0]"),
        ({"input": [None]}, "input[0]"),
        ({"input": 3}, "input"),
        ({"input": [259]}, "input"),
        ({"input": [-1]}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
        ({"input": "a", "dimensions": 64}, "dimensions"),
        ({}, "body"),
    ],
)
async def test_what_cannot_be_embedded_is_named(
    client: httpx.AsyncClient, fields: dict[str, Any], param: str
) -> None:
    response = await embed(client, **fields)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param
