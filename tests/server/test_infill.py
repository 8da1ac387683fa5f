"""`suffix` of /v1/completions: text between two texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from edgekv.core.request import Segment, TextPrompt
from edgekv.service.infill import infill_prompt
from tests.fakes import FakeLibrary
from tests.server.served import serve
from tests.unit.test_templates import facts

MARKS = ("<|im_start|>", "<|bos|>", "<|im_end|>")
BEFORE, AFTER = "def f():\n    ", "\n    return x"


@pytest.fixture
def library(request: pytest.FixtureRequest) -> FakeLibrary:
    return FakeLibrary("x = 1", infill_marks=getattr(request, "param", MARKS))


async def refusal(client: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    response = await client.post("/v1/completions", json=fields)
    assert response.status_code == 400
    error: dict[str, Any] = response.json()["error"]
    return error


@pytest.mark.anyio
@pytest.mark.parametrize("library", [MARKS], indirect=True)
async def test_a_gap_is_filled_and_only_what_is_before_it_is_echoed(
    client: httpx.AsyncClient,
) -> None:
    fields = {"prompt": [BEFORE, "b"], "suffix": AFTER, "echo": True, "n": 2}
    answer = (await client.post("/v1/completions", json=fields)).json()
    texts = [choice["text"] for choice in answer["choices"]]
    assert texts == [f"{BEFORE}x = 1"] * 2 + ["bx = 1"] * 2
    # A start token and three marks in each of the two prompts.
    num_tokens = len(BEFORE) + len("b") + 2 * (1 + 3 + len(AFTER))
    assert answer["usage"]["prompt_tokens"] == num_tokens


@pytest.mark.anyio
async def test_what_follows_the_gap_may_look_like_a_mark(client: httpx.AsyncClient) -> None:
    plain = {"prompt": "a", "suffix": "x" * len(MARKS[2])}
    marked = {"prompt": "a", "suffix": MARKS[2]}
    counts = [
        (await client.post("/v1/completions", json=fields)).json()["usage"]["prompt_tokens"]
        for fields in (plain, marked)
    ]
    assert counts[0] == counts[1]


@pytest.mark.anyio
async def test_tokens_have_no_gap_to_fill(client: httpx.AsyncClient) -> None:
    assert (await refusal(client, prompt=[65], suffix="b"))["param"] == "suffix"


@pytest.mark.anyio
@pytest.mark.parametrize("library", [None], indirect=True)
async def test_a_model_that_fills_no_gaps_says_so(client: httpx.AsyncClient) -> None:
    error = await refusal(client, prompt="a", suffix="b")
    assert (error["param"], error["code"]) == ("suffix", "unsupported_parameter")
    empty = await client.post("/v1/completions", json={"prompt": "a", "suffix": ""})
    assert empty.status_code == 200


@pytest.fixture(scope="module")
def infill_model(starter_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The starter model with three of its idle control tokens named as marks for gaps."""
    content = starter_model.read_bytes()
    new_names = {
        b"<repo_name>": b"<PRE>",
        b"<reponame>": b"<SUF>",
        b"<file_sep>": b"<MID>",
        # As many bytes longer as the others got shorter: nothing behind them moves.
        b"<empty_output>": b"<empty_output" + b"_" * 16 + b">",
    }
    for old, new in new_names.items():
        (old_text, new_text) = (len(name).to_bytes(8, "little") + name for name in (old, new))
        assert content.count(old_text) == 1
        content = content.replace(old_text, new_text)
    path = tmp_path_factory.mktemp("infill") / "infill.gguf"
    path.write_bytes(content)
    return path


@pytest.mark.llama
def test_marks_are_found_in_the_vocabulary_and_used(infill_model: Path) -> None:
    with (
        serve(infill_model, "--ctx", "256", "--slots", "1") as served,
        httpx.Client(base_url=served.url, timeout=60) as client,
    ):

        def num_tokens(text: str) -> int:
            return len(client.post("/tokenize", json={"content": text}).json()["tokens"])

        fields = {"prompt": BEFORE, "suffix": f"{AFTER} <SUF>", "max_tokens": 2}
        usage = client.post("/v1/completions", json=fields).json()["usage"]
        expected = 3 + num_tokens(BEFORE) + num_tokens(f"{AFTER} <SUF>")
        assert usage["prompt_tokens"] == expected


def test_the_marks_stand_where_models_were_trained_to_find_them() -> None:
    model = replace(facts(None), infill_marks=("<P>", "<S>", "<M>"))
    prompt = infill_prompt(model, TextPrompt((Segment("a", control=True),)), "b")
    assert "".join(segment.text for segment in prompt.segments) == "<P>a<S>b<M>"
    assert [s.text for s in prompt.segments if s.control] == ["<P>", "<S>", "<M>"]
