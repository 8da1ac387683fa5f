"""Requests whose answers are of no use after a while."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.server.in_loop_engine import Engines

pytestmark = pytest.mark.anyio

HI = [{"role": "user", "content": "hi"}]
CHAT = "/v1/chat/completions"
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": HI},
    "/v1/completions": {"prompt": "hi"},
    "/v1/responses": {"input": "hi"},
    "/v1/messages": {"messages": HI, "max_tokens": 4},
}
AN_HOUR = 3_600_000


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", BODIES)
async def test_a_request_that_cannot_start_in_time_fails_and_is_forgotten(
    client: httpx.AsyncClient, engines: Engines, path: str, stream: bool
) -> None:
    engine = engines.last
    engine.hold()
    late = await client.post(path, json={**BODIES[path], "deadline_ms": 50, "stream": stream})
    assert (late.status_code, late.json()["error"]["code"]) == (504, "deadline_exceeded")
    assert late.headers["x-should-retry"] == "false"
    engine.go_on()
    assert (await client.post(path, json=BODIES[path])).status_code == 200
    await engine.idle.wait()
    metrics = (await client.get("/metrics")).text
    assert 'edgekv_requests_total{outcome="expired"} 1.0' in metrics
    for name in ("edgekv_queue_length", "edgekv_running"):
        assert f"\n{name} 0.0\n" in metrics


@pytest.mark.parametrize("path", BODIES)
async def test_an_answer_in_time_is_as_without_a_deadline(
    client: httpx.AsyncClient, path: str
) -> None:
    answer = await client.post(path, json={**BODIES[path], "deadline_ms": AN_HOUR})
    assert answer.status_code == 200


async def test_a_deadline_is_a_count_of_milliseconds(client: httpx.AsyncClient) -> None:
    for value in (0, -1, 1.5, "1000"):
        refused = await client.post(CHAT, json={"messages": HI, "deadline_ms": value})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "deadline_ms")
