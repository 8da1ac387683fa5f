"""Bodies of requests are bounded together, from their first byte to the end of the answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

import httpx
import pytest

from edgekv.core.frames import Cancel, Submit
from edgekv.server import bodies
from tests.server.in_loop_engine import Engines
from tests.server.in_loop_server import PATIENCE_SECONDS
from tests.server.test_refusals import CHAT, HI, error_of

pytestmark = pytest.mark.anyio

PATH = "/v1/completions"
LIMIT, UNCOUNTED = 1000, 200
SMALL = {"messages": HI, "max_tokens": 2}
LARGE = SMALL | {"user": "x" * 1100}
"""Leaves room for bodies that do not count, and no other."""


@pytest.fixture(autouse=True)
def _tight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODIES_LIMIT_BYTES", LIMIT)
    monkeypatch.setattr(bodies, "UNCOUNTED_BYTES", UNCOUNTED)


class SlowCaller:
    """Sends a body but for its last byte, and that one when somebody says so."""

    def __init__(self, client: httpx.AsyncClient, body: object) -> None:
        self._bytes = json.dumps(body).encode()
        self._is_read = asyncio.Event()
        self._may_end = asyncio.Event()
        self._asking = asyncio.create_task(client.post(CHAT, content=self._parts()))

    async def is_read(self) -> None:
        """Until the server has all but the last byte."""
        waiting = asyncio.create_task(self._is_read.wait())
        await asyncio.wait({waiting, self._asking}, return_when=asyncio.FIRST_COMPLETED)
        assert waiting.done(), self._asking.result().text

    async def end(self) -> httpx.Response:
        self._may_end.set()
        return await self._asking

    async def _parts(self) -> AsyncGenerator[bytes]:
        yield self._bytes[:-1]
        self._is_read.set()
        await self._may_end.wait()
        yield self._bytes[-1:]


async def test_a_body_that_is_too_much_beside_others_is_told_to_come_back(
    client: httpx.AsyncClient,
) -> None:
    slow = SlowCaller(client, LARGE)
    await slow.is_read()
    refused = await client.post(CHAT, json=LARGE)
    assert error_of(refused, 429)["code"] == "overloaded"
    assert refused.headers["Retry-After"] == "1"
    assert (await slow.end()).status_code == 200
    assert (await client.post(CHAT, json=LARGE)).status_code == 200


async def test_large_bodies_keep_no_small_one_waiting(client: httpx.AsyncClient) -> None:
    slow = SlowCaller(client, LARGE)
    await slow.is_read()
    assert len(json.dumps(SMALL)) < UNCOUNTED
    assert (await client.post(CHAT, json=SMALL)).status_code == 200
    assert (await slow.end()).status_code == 200


@pytest.mark.parametrize("library", [None], indirect=True)  # writes for ever
@pytest.mark.parametrize("stream", [False, True])
async def test_a_body_counts_until_its_answer_has_ended(
    client: httpx.AsyncClient, engines: Engines, *, stream: bool
) -> None:
    endless = {"prompt": "hi", "ignore_eos": True, "stream": stream, "user": "x" * 1100}
    first = asyncio.create_task(client.post(PATH, json=endless))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await engines.last.hears(Submit)
    assert error_of(await client.post(CHAT, json=LARGE), 429)["code"] == "overloaded"
    first.cancel()
    await engines.last.hears(Cancel)
    await asyncio.gather(first, return_exceptions=True)
    assert (await client.post(CHAT, json=LARGE)).status_code == 200


async def test_a_body_that_was_refused_counts_no_more(client: httpx.AsyncClient) -> None:
    for _ in range(3):
        error_of(await client.post(CHAT, json=LARGE | {"nonsense": 1}), 400)
        error_of(await client.post(CHAT, json=LARGE | {"user": "x" * 2 * LIMIT}), 429)
    assert (await client.post(CHAT, json=LARGE)).status_code == 200
