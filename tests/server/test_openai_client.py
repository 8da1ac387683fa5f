"""OpenAI's own client against a real server with a real model."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.server.served import Served, serve

pytestmark = pytest.mark.llama

CONTEXT = 256
FORCED = {"48124": 100}
"""A bias that lets a token come whatever the model computes, which hangs on what is reused."""
FORCED_TEXT = "STOP"


@pytest.fixture(scope="module")
def served(starter_model: Path) -> Iterator[Served]:
    with serve(starter_model, "--ctx", str(CONTEXT), "--slots", "2") as served:
        yield served


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def user(content: str) -> list[ChatCompletionMessageParam]:
    return [{"role": "user", "content": content}]


def prompt_tokens(client: openai.OpenAI, messages: list[ChatCompletionMessageParam]) -> int:
    answer = client.chat.completions.create(model="local", messages=messages, max_tokens=1)
    assert answer.usage is not None
    return answer.usage.prompt_tokens


def test_a_stream_says_what_the_whole_answer_says(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(
        model="local", messages=user("hi"), max_tokens=8, logit_bias=FORCED
    )
    assert whole.usage is not None
    # The template's own system text and turn marks included.
    assert whole.usage.prompt_tokens == 31
    chunks = list(
        client.chat.completions.create(
            model="local",
            messages=user("hi"),
            max_tokens=8,
            logit_bias=FORCED,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content == FORCED_TEXT * 8
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.total_tokens == whole.usage.total_tokens
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens == 30


def test_a_bias_decides_the_answer_and_leaves_none_in_the_next(client: openai.OpenAI) -> None:
    def answer(bias: dict[str, int]) -> str:
        completion = client.completions.create(
            model="local", prompt="Hello", max_tokens=3, temperature=0, logit_bias=bias
        )
        return completion.choices[0].text

    assert FORCED_TEXT not in answer({})
    assert answer(FORCED) == FORCED_TEXT * 3
    assert FORCED_TEXT not in answer({})


@pytest.mark.parametrize(("length", "generated"), [(250, 6), (255, 1)])
def test_an_answer_ends_where_the_context_ends(
    client: openai.OpenAI, length: int, generated: int
) -> None:
    completion = client.completions.create(
        model="local", prompt=[100] * length, extra_body={"ignore_eos": True}
    )
    assert completion.usage is not None
    assert completion.usage.completion_tokens == generated
    assert completion.choices[0].finish_reason == "length"


@pytest.mark.parametrize("length", [256, 257, 400])
def test_a_prompt_that_fills_the_context_is_refused(client: openai.OpenAI, length: int) -> None:
    with pytest.raises(openai.BadRequestError, match=rf"{length} tokens .* {CONTEXT}") as refusal:
        client.completions.create(model="local", prompt=[100] * length, stream=True)
    assert refusal.value.code == "context_length_exceeded"
    assert refusal.value.param == "prompt"


def test_refusals_are_the_clients_own_exceptions(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refusal:
        client.chat.completions.create(model="local", messages=user("hi"), store=True)
    assert refusal.value.param == "store"
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(model="gpt-9", messages=user("hi"))
    assert unknown.value.code == "model_not_found"


def test_the_model_is_listed(client: openai.OpenAI, starter_model: Path) -> None:
    (model,) = client.models.list().data
    assert client.models.retrieve(model.id) == model
    assert client.models.retrieve(starter_model.name) == model


def test_the_plan_holds_what_was_measured(served: Served) -> None:
    plan = httpx.get(f"{served.url}/plan", timeout=60).json()
    planned = {line["label"]: line["bytes"] for line in plan["lines"]}
    measured = {buffer["label"]: buffer["bytes"] for buffer in plan["measured"]}
    assert measured["kv"] == planned["kv"]
    assert measured["compute"] <= planned["compute"]
    assert measured["weights"] <= planned["weights"]


def test_gemma_gets_its_own_turns_and_one_start_token(gemma_model: Path) -> None:
    with (
        serve(gemma_model, "--ctx", "256", "--slots", "1") as served,
        openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client,
    ):
        for prompt in ("Hello", "<bos>Hello"):
            completion = client.completions.create(model="local", prompt=prompt, max_tokens=1)
            assert completion.usage is not None
            assert completion.usage.prompt_tokens == 2
        # <bos> <start_of_turn> user \n hi <end_of_turn> \n <start_of_turn> model \n
        assert prompt_tokens(client, user("hi")) == 10


@pytest.mark.parametrize(
    ("number", "code", "seconds_to_drain"),
    [(signal.SIGTERM, 0, "0"), (signal.SIGINT, 130, "600")],
)
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to send")
def test_a_signal_ends_the_server_and_its_engine_and_a_second_one_at_once(
    starter_model: Path, number: signal.Signals, code: int, seconds_to_drain: str
) -> None:
    options = ("--ctx", "1024", "--slots", "1", "--drain", seconds_to_drain)
    with serve(starter_model, *options) as served:
        url = f"{served.url}/v1/completions"
        body = {"prompt": "Once", "max_tokens": 1000, "stream": True, "ignore_eos": True}
        with httpx.stream("POST", url, json=body, timeout=60) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("data: ")
            if seconds_to_drain != "0":
                served.process.send_signal(number)
                assert any("Stopping; requests under way: 1." in line for line in served.said)
            assert served.end(number) == code
            rest = list(lines)
        assert any('"error"' in line for line in rest)
        assert "data: [DONE]" not in rest
        said = "".join(served.said)
        assert "Traceback" not in said
        assert "Exception" not in said
