"""Embeddings through OpenAI's own client, from a server that was asked for nothing special."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.server.served import Served, serve

pytestmark = pytest.mark.llama


@pytest.fixture(scope="module")
def served(starter_model: Path) -> Iterator[Served]:
    with serve(starter_model, "--ctx", "256", "--slots", "1") as served:
        yield served


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_texts_are_embedded_in_order(client: openai.OpenAI) -> None:
    answer = client.embeddings.create(
        model="local", input=["hello", "world", "hello"], encoding_format="float"
    )
    vectors = [item.embedding for item in answer.data]
    assert [item.index for item in answer.data] == [0, 1, 2]
    assert [len(vector) for vector in vectors] == [576] * 3
    assert vectors[0] == vectors[2] != vectors[1]
    # Asked for nothing, OpenAI's client asks for base64.
    again = client.embeddings.create(model="local", input="hello").data[0].embedding
    assert again == pytest.approx(vectors[0], abs=1e-6)


def test_embeddings_in_base64_are_floats(served: Served) -> None:
    body = {"input": [[19556], [28, 19556]], "encoding_format": "base64"}
    response = httpx.post(f"{served.url}/v1/embeddings", json=body, timeout=60)
    for item in response.json()["data"]:
        assert len(struct.unpack("<576f", base64.b64decode(item["embedding"]))) == 576


@pytest.mark.parametrize(
    "fields",
    [
        {"input": ""},
        {"input": []},
        {"input": ["a", ""]},
        {"input": [None]},
        {"input": 3},
        {"input": [10**6]},
        {"input": [-1]},
        {"input": "a", "encoding_format": "hex"},
        {"input": "a", "dimensions": 64},
        {"input": "a " * 20_000},
    ],
)
def test_what_cannot_be_embedded_is_refused(served: Served, fields: dict[str, Any]) -> None:
    response = httpx.post(f"{served.url}/v1/embeddings", json=fields, timeout=60)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["message"]


def test_a_text_longer_than_a_conversation_is_embedded_whole(client: openai.OpenAI) -> None:
    answer = client.embeddings.create(model="local", input="a " * 600)
    assert answer.usage.prompt_tokens >= 600


def test_answers_go_on_beside_embeddings(client: openai.OpenAI) -> None:
    client.embeddings.create(model="local", input="hello")
    answer = client.chat.completions.create(
        model="local", messages=[{"role": "user", "content": "hi"}], max_tokens=4
    )
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 0


def test_without_room_for_them_the_answer_says_how_to_get_it(starter_model: Path) -> None:
    with serve(starter_model, "--ctx", "256", "--slots", "1", "--no-embeddings") as served:
        response = httpx.post(f"{served.url}/v1/embeddings", json={"input": "a"}, timeout=60)
    assert response.status_code == 501
    assert "--embeddings" in response.json()["error"]["message"]
