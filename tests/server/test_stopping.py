"""A server that is told to stop or to read again: drained, announced, never cut before its time."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from edgekv.errors import SettingsError
from edgekv.server import run
from edgekv.server.guard import Access
from edgekv.service.states import State
from edgekv.service.worker import Worker
from tests.server.in_loop_engine import Engines
from tests.server.in_loop_server import CHAT, HI, LONG, PATIENCE_SECONDS, until_ready

pytestmark = pytest.mark.anyio
STREAM = {**LONG, "stream": True}


class Keys:
    """What the file with the key says."""

    def __init__(self) -> None:
        self.now = "one"

    def read(self) -> str | None:
        if self.now == "broken":
            raise SettingsError("The key must be printable ASCII.")
        return self.now


class Server:
    def __init__(self, worker: Worker, drain: float) -> None:
        self.worker, self.keys, self.ready = worker, Keys(), asyncio.Event()
        listener = run.listen("127.0.0.1", 0)
        self.url = run.url_of(listener)
        manner = run.Manner(seconds_to_drain=drain, reread_key=self.keys.read)
        access = Access("127.0.0.1", "one")
        self.running = asyncio.create_task(
            run.run(worker, listener, access, self.ready.set, manner)
        )

    def client(self, key: str = "one") -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {key}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=PATIENCE_SECONDS)


@pytest.fixture
async def server(
    unstarted: tuple[Worker, Engines], request: pytest.FixtureRequest
) -> AsyncIterator[Server]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        server = Server(unstarted[0], getattr(request, "param", PATIENCE_SECONDS))
        await until_ready(server.ready, server.running)
        yield server
        if not server.running.done():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
        await server.running
        assert server.worker.state is State.CLOSED


async def test_an_answer_under_way_is_finished_and_nobody_else_let_in(server: Server) -> None:
    asked = {**STREAM, "max_tokens": 60}
    async with server.client() as client, client.stream("POST", CHAT, json=asked) as answer:
        lines = answer.aiter_lines()
        await anext(lines)
        signal.raise_signal(signal.SIGTERM)
        async with server.client() as late:
            health = await late.get("/health")
            refused = await late.post(CHAT, json=HI)
        assert (health.status_code, health.json()["status"]) == (503, "draining")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        rest = [line async for line in lines]
    assert "data: [DONE]" in rest
    assert any('"finish_reason":"length"' in line for line in rest)
    assert await server.running is signal.SIGTERM


async def test_a_second_signal_ends_what_is_under_way_with_the_reason(server: Server) -> None:
    async with server.client() as client, client.stream("POST", CHAT, json=STREAM) as answer:
        lines = answer.aiter_lines()
        await anext(lines)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert await server.running is signal.SIGTERM
        rest = [line async for line in lines if line]
    assert rest[-1].startswith('data: {"error":')


@pytest.mark.parametrize("server", [0.01], indirect=True)
async def test_an_answer_that_takes_too_long_is_ended(server: Server) -> None:
    async with server.client() as client, client.stream("POST", CHAT, json=STREAM) as answer:
        await anext(answer.aiter_lines())
        signal.raise_signal(signal.SIGTERM)
        assert await server.running is signal.SIGTERM


async def test_a_reload_changes_the_key_and_keeps_the_old_one_if_the_new_is_none(
    server: Server,
) -> None:
    async def statuses() -> list[int]:
        found = []
        for key in ("one", "two"):
            async with server.client(key) as client:
                found.append((await client.get("/v1/models")).status_code)
        return found

    assert await statuses() == [200, 401]
    for said, expected in (("two", [401, 200]), ("broken", [401, 200]), ("one", [200, 401])):
        server.keys.now = said
        signal.raise_signal(signal.SIGHUP)
        assert await statuses() == expected


async def test_systemd_hears_of_every_turn(
    unstarted: tuple[Worker, Engines], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        supervisor.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            server = Server(unstarted[0], 0)
            loop = asyncio.get_running_loop()
            assert await loop.sock_recv(supervisor, 100) == b"READY=1"
            signal.raise_signal(signal.SIGHUP)
            assert (await loop.sock_recv(supervisor, 100)).startswith(b"RELOADING=1\nMONOTONIC_")
            assert await loop.sock_recv(supervisor, 100) == b"READY=1"
            signal.raise_signal(signal.SIGTERM)
            assert await loop.sock_recv(supervisor, 100) == b"STOPPING=1"
            await server.running
