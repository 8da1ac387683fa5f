"""docs/api.md names everything that the server knows."""

from __future__ import annotations

import json

import pytest

from edgekv.server.bodies import BODIES_LIMIT_BYTES, BODY_LIMIT_BYTES, UNCOUNTED_BYTES
from edgekv.server.chat_request import ChatRequest
from edgekv.server.completion_request import CompletionRequest
from edgekv.server.errors import HTTP_CODES, STATUS
from edgekv.server.schema import IGNORED, NEUTRAL
from edgekv.server.sse import HEARTBEAT_SECONDS
from edgekv.service.template_frames import MEMORY_LIMIT_BYTES
from edgekv.service.templates import SECONDS_TO_RENDER
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "api.md").read_text(encoding="utf-8")
IN_ONE_LINE = " ".join(PAGE.split())
FIELDS = {*ChatRequest.__struct_fields__, *CompletionRequest.__struct_fields__}


@pytest.mark.parametrize("name", sorted(FIELDS | IGNORED))
def test_every_field_is_documented(name: str) -> None:
    assert f"`{name}`" in PAGE or f"`{name}." in PAGE


@pytest.mark.parametrize("name", sorted(NEUTRAL))
def test_every_value_that_asks_for_nothing_is_documented(name: str) -> None:
    values = ", ".join(map(json.dumps, NEUTRAL[name]))
    assert (f"`{name}` ({values})" if values else f"`{name}`,") in IN_ONE_LINE.replace(".", ",")


def test_every_error_is_documented() -> None:
    for code in HTTP_CODES.values():
        assert f"`{code}`" in PAGE
    for cls, status in STATUS.items():
        if status < 500:
            assert f"| {status} | `{cls.code}`" in PAGE


def test_the_limits_are_those_of_the_code() -> None:
    assert f"more than {BODY_LIMIT_BYTES // 2**20} MiB" in PAGE
    assert (
        f"more than {BODIES_LIMIT_BYTES // 2**20} MiB, without the first "
        f"{UNCOUNTED_BYTES // 1024} KiB of each"
    ) in PAGE
    assert f"every {HEARTBEAT_SECONDS:g} seconds" in PAGE
    assert f"time ({SECONDS_TO_RENDER:g} seconds), memory ({MEMORY_LIMIT_BYTES // 2**20} MiB)" in (
        IN_ONE_LINE
    )
