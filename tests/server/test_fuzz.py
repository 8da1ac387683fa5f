"""Requests that nobody thought of: none of them is a mistake of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from schemathesis.generation import GenerationMode

from edgekv.server.openapi import GETS, POSTS
from tests.server.fuzzing import MODES, OPTIONS, Fuzz
from tests.server.served import Served, serve

pytestmark = pytest.mark.llama

EXAMPLES = 8
"""For each path and each mode; `make fuzz` sends more."""


@pytest.fixture(scope="module")
def served(starter_model: Path) -> Iterator[Served]:
    with serve(starter_model, *OPTIONS) as served:
        yield served
        Fuzz(served).check_alive()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", POSTS)
def test_no_request_is_a_mistake_of_ours(served: Served, path: str, mode: GenerationMode) -> None:
    # The same requests each time: a change is judged by what it did.
    Fuzz(served).send(path, mode, max_examples=EXAMPLES, database=None, derandomize=True)


@pytest.mark.parametrize("path", GETS)
def test_what_can_be_read_is_there(served: Served, path: str) -> None:
    assert httpx.get(f"{served.url}{path}", timeout=60).status_code == 200
