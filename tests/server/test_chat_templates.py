"""What a caller gets from models whose chat templates are odd, broken, hostile or absent.

How each is rendered is tested in `unit/test_templates.py`.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.fakes import FakeLibrary
from tests.unit.test_templates import named

pytestmark = pytest.mark.anyio

USER = {"role": "user", "content": "Hi <한국>"}
SYSTEM = {"role": "system", "content": "Be brief."}
TOOLS = [{"type": "function", "function": {"name": "now"}}]
SHAPES = {
    "user": {"messages": [USER]},
    "system": {"messages": [SYSTEM, USER]},
    "twice": {"messages": [USER, USER]},
    "tools": {"messages": [USER], "tools": TOOLS},
}


@pytest.fixture
def library(request: pytest.FixtureRequest) -> FakeLibrary:
    template = getattr(request, "param", None)
    return FakeLibrary("Well.", None if template is None else named(template))


async def ask(client: httpx.AsyncClient, shape: str) -> httpx.Response:
    return await client.post("/v1/chat/completions", json=SHAPES[shape])


async def prompt(client: httpx.AsyncClient, shape: str) -> str:
    response = await client.post("/apply-template", json=SHAPES[shape])
    text: str = response.json()["prompt"]
    return text


def error_of(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 400
    error: dict[str, Any] = response.json()["error"]
    return error


@pytest.mark.parametrize(
    "library",
    ["hf_generation_tag", "strftime_now", "loop_controls", "tojson_unicode", "ignores_messages"],
    indirect=True,
)
@pytest.mark.parametrize("shape", SHAPES)
async def test_an_odd_template_is_followed(client: httpx.AsyncClient, shape: str) -> None:
    response = await ask(client, shape)
    assert response.status_code == 200, response.text
    # Tools in words fill the context nearly up.
    assert response.json()["choices"][0]["message"]["content"].startswith("We")


@pytest.mark.parametrize("library", ["bos_inside"], indirect=True)
async def test_a_template_with_a_start_token_of_its_own_gives_one(
    client: httpx.AsyncClient,
) -> None:
    text = await prompt(client, "user")
    assert text.startswith("<|bos|>[user]")
    num_tokens = 1 + len(text.removeprefix("<|bos|>").encode())
    assert (await ask(client, "user")).json()["usage"]["prompt_tokens"] == num_tokens


@pytest.mark.parametrize(
    ("library", "shape", "words"),
    [
        ("raise_on_system", "system", "this model takes no system message"),
        ("must_alternate", "twice", "roles must take turns"),
        ("syntax_error", "user", "in line 1 of the template"),
        ("undefined_nested", "user", "has no attribute"),
        ("bomb", "user", "template"),
        ("sandbox_escape", "user", "unsafe"),
        ("file_read", "user", "no loader"),
    ],
    indirect=["library"],
)
async def test_a_template_that_fails_is_the_requests_error_and_no_more(
    client: httpx.AsyncClient, shape: str, words: str
) -> None:
    error = error_of(await ask(client, shape))
    assert words in error["message"]
    assert error["param"] == "messages"
    # The model itself is as usable as any.
    assert (await client.get("/health")).json() == {"status": "ready"}
    response = await client.post("/v1/completions", json={"prompt": "Hi"})
    assert response.json()["choices"][0]["text"] == "Well."


@pytest.mark.parametrize("library", [None, "empty"], indirect=True)
async def test_without_a_template_the_vocabulary_says_how_turns_look(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await prompt(client, "user")).startswith("<|im_start|>user\nHi <한국><|im_end|>")
    assert "no chat template" in caplog.text
    assert (await ask(client, "system")).status_code == 200
