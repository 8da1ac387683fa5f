"""A request's fields → what the engine is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edgekv.core.request import SamplingParams
from edgekv.server.chat_request import ChatRequest
from edgekv.server.schema import parse

HI = {"messages": [{"role": "user", "content": "hi"}]}


def sampling(**fields: Any) -> SamplingParams:
    return parse(json.dumps(HI | fields).encode(), ChatRequest).sampling(num_vocab=100)


def test_what_is_not_said_is_llama_cpps_default() -> None:
    assert sampling() == sampling(temperature=None, seed=None) == SamplingParams()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", 0),
        ("temperature", 2),
        ("top_p", 0.5),
        ("top_k", 0),
        ("min_p", 0.1),
        ("seed", -(2**63)),
        ("seed", 2**63 - 1),
        ("repeat_penalty", 1.1),
        ("presence_penalty", -2),
        ("frequency_penalty", 2),
    ],
)
def test_every_sampling_field_arrives(field: str, value: float) -> None:
    given = sampling(**{field: value})
    assert getattr(given, field) == value
    others = {name for name in SamplingParams.__struct_fields__ if name != field}
    assert all(getattr(given, name) == getattr(SamplingParams(), name) for name in others)


@pytest.mark.parametrize("name", ["interactive", "normal", "batch"])
def test_priorities_go_by_name(name: str) -> None:
    assert parse(json.dumps(HI | {"priority": name}).encode(), ChatRequest).priority == name


def test_biases_arrive_by_token() -> None:
    assert sampling(logit_bias={"99": -100, "0": 2}).logit_bias == ((99, -100.0), (0, 2.0))
