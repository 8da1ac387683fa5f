"""What the API offers beyond words, tried with OpenAI's own client on a real model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionToolParam

from tests.server.served import Served, serve
from tests.server.test_openai_client import user

pytestmark = pytest.mark.llama

TEXT = "한국어 é 漢字"


@pytest.fixture(scope="module")
def served(starter_model: Path) -> Iterator[Served]:
    with serve(starter_model, "--ctx", "1024", "--slots", "4") as served:
        yield served


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def schema_format(schema: object) -> Any:
    named = {"name": "t", "strict": True, "schema": schema}
    return {"type": "json_schema", "json_schema": named}


def answer(client: openai.OpenAI, schema: object, **fields: Any) -> str:
    completion = client.chat.completions.create(
        model="local",
        messages=user("Answer in JSON."),
        temperature=0,
        max_tokens=80,
        response_format=schema_format(schema),
        **fields,
    )
    return completion.choices[0].message.content or ""


NOW: ChatCompletionToolParam = {
    "type": "function",
    "function": {"name": "now", "parameters": {"type": "object", "additionalProperties": False}},
}
WARMTH: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "warmth",
        "parameters": {
            "$defs": {"room": {"enum": ["hall"]}},  # or the model would choose
            "type": "object",
            "properties": {"room": {"$ref": "#/$defs/room"}},
            "required": ["room"],
            "additionalProperties": False,
        },
    },
}


def test_choices_share_the_prompt_and_draw_apart(client: openai.OpenAI) -> None:
    completion = client.chat.completions.create(
        model="local", messages=user("Name a colour."), n=3, seed=7, temperature=1.5, max_tokens=12
    )
    assert [choice.index for choice in completion.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in completion.choices}) > 1
    again = client.chat.completions.create(
        model="local", messages=user("Name a colour."), n=1, seed=7, temperature=1.5, max_tokens=1
    )
    assert again.usage is not None
    assert completion.usage is not None
    assert again.usage.prompt_tokens == completion.usage.prompt_tokens


def test_streamed_choices_end_one_by_one(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="local", messages=user("Count."), n=3, max_tokens=4, stream=True
        )
    )
    ends = [c.index for chunk in chunks for c in chunk.choices if c.finish_reason]
    assert sorted(ends) == [0, 1, 2]


def test_likelihoods_are_told_for_every_token(client: openai.OpenAI) -> None:
    completion = client.chat.completions.create(
        model="local",
        messages=user("hi"),
        max_tokens=5,
        temperature=0,
        logprobs=True,
        top_logprobs=3,
    )
    (choice,) = completion.choices
    assert choice.logprobs is not None
    tokens = choice.logprobs.content or []
    assert "".join(token.token for token in tokens) == choice.message.content
    for token in tokens:
        assert token.logprob <= 0
        likeliest = [top.logprob for top in token.top_logprobs]
        assert likeliest == sorted(likeliest, reverse=True)
        # Without a temperature the likeliest is taken.
        assert (token.token, token.logprob) == (token.top_logprobs[0].token, likeliest[0])


def test_likelihoods_of_a_completion_have_offsets(client: openai.OpenAI) -> None:
    completion = client.completions.create(
        model="local", prompt="Once upon", max_tokens=4, temperature=0, logprobs=2
    )
    (choice,) = completion.choices
    assert choice.logprobs is not None
    tokens, offsets = choice.logprobs.tokens, choice.logprobs.text_offset
    assert tokens is not None
    assert offsets is not None
    assert "".join(tokens) == choice.text
    assert offsets == [len("".join(tokens[:i])) for i in range(len(tokens))]


def test_a_constant_comes_to_the_letter_whole_or_streamed(client: openai.OpenAI) -> None:
    assert answer(client, {"const": TEXT}) == json.dumps(TEXT, ensure_ascii=False)
    stream = client.chat.completions.create(
        model="local",
        messages=user("Say it."),
        response_format=schema_format({"const": TEXT}),
        stream=True,
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    assert text == json.dumps(TEXT, ensure_ascii=False)


def test_any_object_will_do_where_that_is_asked(client: openai.OpenAI) -> None:
    completion = client.chat.completions.create(
        model="local",
        messages=user("Give a JSON object."),
        response_format={"type": "json_object"},
        temperature=0,
        max_tokens=40,
    )
    (choice,) = completion.choices
    assert (choice.message.content or "").startswith("{")
    if choice.finish_reason == "stop":
        assert isinstance(json.loads(choice.message.content or ""), dict)


def test_a_named_tool_is_called_whole_or_streamed(client: openai.OpenAI) -> None:
    fields: dict[str, Any] = {
        "model": "local",
        "messages": user("Good morning."),
        "tools": [NOW, WARMTH],
        "tool_choice": {"type": "function", "function": {"name": "warmth"}},
        "temperature": 0,
    }
    whole = client.chat.completions.create(**fields)
    (call,) = whole.choices[0].message.tool_calls
    deltas = [
        delta
        for chunk in client.chat.completions.create(**fields, stream=True)
        for choice in chunk.choices
        for delta in choice.delta.tool_calls or ()
    ]
    assert {delta.index for delta in deltas} == {0}
    joined = "".join(delta.function.arguments for delta in deltas)
    assert json.loads(joined) == json.loads(call.function.arguments) == {"room": "hall"}


def test_with_a_choice_a_small_model_may_just_talk(client: openai.OpenAI) -> None:
    completion = client.chat.completions.create(
        model="local", messages=user("Good morning."), tools=[NOW], temperature=0, max_tokens=20
    )
    (choice,) = completion.choices
    assert choice.message.content or choice.message.tool_calls


def test_the_responses_api_answers_and_remembers(client: openai.OpenAI) -> None:
    first = client.responses.create(
        model="local", input="My name is Ada.", max_output_tokens=16, temperature=0
    )
    assert first.output_text
    events = list(
        client.responses.create(
            model="local",
            input="What is my name?",
            previous_response_id=first.id,
            max_output_tokens=16,
            stream=True,
        )
    )
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert events[-1].type in ("response.completed", "response.incomplete")
    assert text == events[-1].response.output_text.rstrip() or text.strip()
    assert client.responses.retrieve(first.id).output_text == first.output_text


def test_the_messages_api_streams_named_events(served: Served) -> None:
    body = {
        "model": "local",
        "max_tokens": 12,
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "temperature": 0,
    }
    lines = httpx.post(f"{served.url}/v1/messages", json=body, timeout=60).text.split("\n")
    names = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert names[0] == "message_start"
    assert names[-1] == "message_stop"
    assert "content_block_delta" in names
