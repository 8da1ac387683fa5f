"""Requests that other servers got wrong, sent as they were reported to a real server.

`tests/data/requests/README.md` names the reports.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from tests.conftest import REPOSITORY
from tests.llama.test_grammar import REFUSED
from tests.server.served import serve

pytestmark = pytest.mark.llama

DATA = REPOSITORY / "tests" / "data"
GRAMMARS = sorted((DATA / "grammars").glob("*.json"))
CHAT = "/v1/chat/completions"
CONTEXT = 256
FORCED = '{"x":"한국어한국어 é 漢字"}'


@pytest.fixture(scope="module")
def client(starter_model: Path) -> Iterator[httpx.Client]:
    with (
        serve(starter_model, "--ctx", str(CONTEXT), "--slots", "4") as served,
        httpx.Client(base_url=served.url, timeout=120) as client,
    ):
        yield client


def body(name: str, **changes: Any) -> dict[str, Any]:
    fields = json.loads((DATA / "requests" / f"{name}.json").read_bytes())
    return {**fields, **changes}


def named(folder: str, *names: str) -> list[str]:
    return [f"{folder}/{name}" for name in names]


def whole(client: httpx.Client, fields: dict[str, Any], path: str = CHAT) -> dict[str, Any]:
    response = client.post(path, json=fields)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def events(client: httpx.Client, fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a stream that ended as it should, each of them valid UTF-8."""
    response = client.post(CHAT, json={**fields, "stream": True})
    assert response.status_code == 200, response.text
    lines = [e for e in response.content.decode("utf-8").split("\n\n") if not e.startswith(":")]
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def refusal(client: httpx.Client, fields: dict[str, Any], path: str = CHAT) -> dict[str, Any]:
    response = client.post(path, json=fields)
    assert response.status_code == 400, response.text
    error: dict[str, Any] = response.json()["error"]
    return error


def said(told: list[dict[str, Any]]) -> str:
    return "".join(e["choices"][0]["delta"].get("content") or "" for e in told if e["choices"])


# --- usage ---


def test_who_asks_for_no_usage_is_told_none(client: httpx.Client) -> None:
    told = events(client, body("usage/no_usage"))
    assert all(event["choices"][0]["index"] == 0 for event in told)
    assert all(event.get("usage") is None for event in told)


def test_who_asks_for_usage_is_told_once_and_last(client: httpx.Client) -> None:
    usage = whole(client, body("usage/not_stream", ignore_eos=True))["usage"]
    *before, last = events(client, body("usage/with_usage", ignore_eos=True))
    assert all(event["usage"] is None and event["choices"] for event in before)
    assert last["choices"] == []
    counts = ("prompt_tokens", "completion_tokens", "total_tokens")
    assert [last["usage"][name] for name in counts] == [usage[name] for name in counts]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_usage_in_a_stream_needs_a_stream(client: httpx.Client) -> None:
    assert refusal(client, body("usage/usage_without_stream"))["param"] == "stream_options"


# --- characters of several tokens ---


@pytest.mark.parametrize("limit", [*range(5, 20), None])
def test_an_answer_is_cut_between_characters(client: httpx.Client, limit: int | None) -> None:
    fields = body("cuts/full", stream_options={"include_usage": True})
    fields |= {"max_tokens": limit or fields["max_tokens"]}
    *told, last = events(client, fields)
    assert "�" not in said(told)
    assert FORCED.startswith(said(told))
    assert (said(told) == FORCED) == (limit is None)
    assert told[-1]["choices"][0]["finish_reason"] == ("stop" if limit is None else "length")
    assert last["usage"]["completion_tokens"] <= fields["max_tokens"]


# --- forms ---


@pytest.mark.parametrize("case", GRAMMARS, ids=lambda case: case.stem)
def test_a_form_is_kept_or_refused(client: httpx.Client, case: Path) -> None:
    fields = json.loads(case.read_bytes())
    if case.stem in REFUSED:
        assert refusal(client, fields)["param"] == "response_format"
        return
    (choice,) = whole(client, fields)["choices"]
    schema = fields["response_format"].get("json_schema", {}).get("schema", {"type": "object"})
    if choice["finish_reason"] == "stop":
        jsonschema.validate(json.loads(choice["message"]["content"]), schema)
    else:
        assert choice["finish_reason"] == "length"


def test_a_form_that_nobody_knows_is_refused(client: httpx.Client) -> None:
    assert refusal(client, body("content/unknown_format"))["param"] == "response_format.type"


# --- content ---


@pytest.mark.parametrize(
    ("case", "num_tokens"),
    [
        ("string", 35),
        ("parts_one", 35),
        ("parts", 35),
        # 40 if the control tokens counted.
        ("special_tokens_in_content", 58),
        ("empty_string", None),
        ("null_with_tool_calls", None),
        ("missing_content_with_tool_calls", None),
    ],
)
def test_content_of_every_usual_shape_is_read(
    client: httpx.Client, case: str, num_tokens: int | None
) -> None:
    usage = whole(client, body(f"content/{case}"))["usage"]
    assert usage["prompt_tokens"] == (num_tokens or usage["prompt_tokens"])


@pytest.mark.parametrize(
    ("case", "param"),
    [
        ("null_user", "messages[0].content"),
        ("image_part_on_text_model", "messages[0].content[0]"),
        ("broken_arguments_in_history", "messages[1].tool_calls[0].function.arguments"),
    ],
)
def test_content_that_cannot_be_used_is_named(client: httpx.Client, case: str, param: str) -> None:
    assert refusal(client, body(f"content/{case}"))["param"] == param


# --- counts ---


@pytest.mark.parametrize("case", ["max_0", "max_minus1", "max_minus7"])
def test_no_limit_is_read_as_no_end(client: httpx.Client, case: str) -> None:
    assert refusal(client, body(f"counts/{case}"))["param"] == "max_tokens"


@pytest.mark.parametrize("case", ["max_1e9", "max_null"])
def test_without_a_limit_the_context_is_the_limit(client: httpx.Client, case: str) -> None:
    answer = whole(client, body(f"counts/{case}"))
    assert answer["usage"]["total_tokens"] <= CONTEXT
    assert answer["choices"][0]["finish_reason"] in ("stop", "length")


@pytest.mark.parametrize("case", ["mct_3", "both"])
def test_the_smaller_limit_counts(client: httpx.Client, case: str) -> None:
    assert whole(client, body(f"counts/{case}"))["usage"]["completion_tokens"] <= 3


def test_a_completion_without_a_limit_has_sixteen_tokens(client: httpx.Client) -> None:
    answer = whole(client, body("counts/completions_no_max", ignore_eos=True), "/v1/completions")
    assert answer["usage"]["completion_tokens"] == 16


def test_three_answers_are_three_choices(client: httpx.Client) -> None:
    choices = whole(client, body("counts/n_3"))["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    told = [
        choice for event in events(client, body("counts/n_3_stream")) for choice in event["choices"]
    ]
    assert sorted(choice["index"] for choice in told if choice["finish_reason"]) == [0, 1, 2]


def test_a_thousand_answers_are_refused(client: httpx.Client) -> None:
    assert refusal(client, body("counts/n_1000"))["param"] == "n"


# --- tools ---


def calls(client: httpx.Client, fields: dict[str, Any], *, stream: bool) -> list[tuple[str, Any]]:
    """The calls of an answer that is nothing else: names, and arguments as values."""
    if not stream:
        (choice,) = whole(client, fields)["choices"]
        message = choice["message"]
        assert (choice["finish_reason"], message["content"]) == ("tool_calls", None)
        made = [call["function"] for call in message["tool_calls"]]
        return [(call["name"], json.loads(call["arguments"])) for call in made]
    told = [event["choices"][0] for event in events(client, fields)]
    assert told[-1]["finish_reason"] == "tool_calls"
    assert not any(choice["delta"].get("content") for choice in told)
    deltas = [delta for choice in told for delta in choice["delta"].get("tool_calls", ())]
    places = sorted({delta["index"] for delta in deltas})
    assert places == list(range(len(places)))
    return [_joined([d for d in deltas if d["index"] == place]) for place in places]


def _joined(deltas: list[dict[str, Any]]) -> tuple[str, Any]:
    assert [bool(delta.get("id")) for delta in deltas] == [True, *[False] * (len(deltas) - 1)]
    arguments = "".join(delta["function"]["arguments"] for delta in deltas)
    return deltas[0]["function"]["name"], json.loads(arguments)


@pytest.mark.parametrize("stream", [False, True])
def test_a_required_call_is_one_of_those_offered(client: httpx.Client, stream: bool) -> None:
    fields = body("tools/required")
    parameters = {t["function"]["name"]: t["function"].get("parameters") for t in fields["tools"]}
    made = calls(client, fields, stream=stream)
    assert made
    for name, arguments in made:
        jsonschema.validate(arguments, parameters[name] or {"type": "object", "maxProperties": 0})


@pytest.mark.parametrize("stream", [False, True])
def test_a_named_call_is_that_one(client: httpx.Client, stream: bool) -> None:
    assert calls(client, body("tools/named"), stream=stream) == [("now", {})]


@pytest.mark.parametrize("case", ["auto", "none"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_may_be_left_out_is_no_error(
    client: httpx.Client, case: str, stream: bool
) -> None:
    told = (
        events(client, body(f"tools/{case}")) if stream else [whole(client, body(f"tools/{case}"))]
    )
    is_called = '"tool_calls"' in json.dumps(told)
    assert not is_called or case == "auto"


@pytest.mark.parametrize("case", ["named_unknown", "garbage"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_choice_of_no_tool_is_refused(client: httpx.Client, case: str, stream: bool) -> None:
    assert refusal(client, body(f"tools/{case}", stream=stream))["param"] == "tool_choice"


# --- state ---


def test_nothing_of_one_request_is_left_for_the_next(client: httpx.Client) -> None:
    assert_plain(answer(client, "plain"))
    assert json.loads(answer(client, "schema")) == {"x": "한국어"}
    assert_plain(answer(client, "plain"))
    assert answer(client, "biased").startswith("STOPSTOP")
    assert_plain(answer(client, "plain"))


def answer(client: httpx.Client, name: str) -> str:
    told: str = whole(client, body(f"state/{name}"))["choices"][0]["message"]["content"]
    return told


def assert_plain(told: str) -> None:
    """Which words an answer has hangs on the processor, and on what shares its steps."""
    assert len(set(told)) > 5
    assert not told.startswith("{")
    assert "STOP" not in told


def test_nothing_of_one_request_gets_into_others_beside_it(client: httpx.Client) -> None:
    names = ["plain", "schema", "biased", "plain"]
    with ThreadPoolExecutor(len(names)) as callers:
        plain, schema, biased, again = callers.map(partial(answer, client), names)
    assert json.loads(schema) == {"x": "한국어"}
    assert biased == "STOP" * 24
    for told in (plain, again):
        assert_plain(told)
