"""Requests that nobody thought of, made from /openapi.json: none of them is a mistake of ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.generation import GenerationMode

from edgekv.server.openapi import GETS, POSTS
from tests.server.served import Served, serve

pytestmark = pytest.mark.llama

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "8"))
"""For each path and each mode."""
PATIENCE_SECONDS = 60
ALLOWED = {501, 503}
"""What this machine or this plan has not."""


@pytest.fixture(scope="module")
def served(starter_model: Path) -> Iterator[Served]:
    # A small context also bounds the answers to requests without a limit.
    with serve(starter_model, "--ctx", "256", "--slots", "2") as served:
        yield served
        health = httpx.get(f"{served.url}/health").json()
        assert health == {"status": "ready"}
        metrics = httpx.get(f"{served.url}/metrics").text
        assert "edgekv_engine_restarts_total 0.0" in metrics


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("path", POSTS)
def test_no_request_is_a_mistake_of_ours(served: Served, path: str, mode: GenerationMode) -> None:
    operation = schemathesis.openapi.from_url(f"{served.url}/openapi.json")[path]["POST"]

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        response = case.call(timeout=PATIENCE_SECONDS)
        assert response.status_code < 500 or response.status_code in ALLOWED, response.text
        if response.status_code >= 400:
            assert set(response.json()["error"]) == {"message", "type", "param", "code"}

    check()


@pytest.mark.parametrize("path", GETS)
def test_what_can_be_read_is_there(served: Served, path: str) -> None:
    assert httpx.get(f"{served.url}{path}").status_code == 200
