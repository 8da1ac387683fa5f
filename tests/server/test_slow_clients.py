"""Clients on raw sockets that read nothing of their answers."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from edgekv.core.frames import Cancel
from edgekv.server import connection, run
from edgekv.service import unread
from edgekv.service.worker import Worker
from tests.server.in_loop_engine import Engines
from tests.server.in_loop_server import CHAT, HI, PATIENCE_SECONDS, Server

# Without a script the fake model writes a letter a token, for ever.
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("library", [None], indirect=True)]

SMALL_BUFFER = 4096
LONG = {**HI, "ignore_eos": True, "stream": True, "logprobs": True, "top_logprobs": 20}
"""A megabyte of events, more than all buffers on its way hold."""
SHORT = {**HI, "max_tokens": 3}


class Reasons(logging.Handler):
    """Why clients were dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.heard = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        self.heard.set()


@pytest.fixture
def reasons() -> Iterator[Reasons]:
    handler = Reasons()
    connection.logger.addHandler(handler)
    yield handler
    connection.logger.removeHandler(handler)


@pytest.fixture
async def server(
    unstarted: tuple[Worker, Engines], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Server]:
    def listen(host: str, port: int) -> socket.socket:
        listener = listen_as_usual(host, port)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
        return listener

    listen_as_usual = run.listen
    monkeypatch.setattr(run, "listen", listen)
    monkeypatch.setattr(connection, "SECONDS_TO_READ", 0.01)
    async with asyncio.timeout(PATIENCE_SECONDS):
        server = Server(unstarted[0])
        await server.started()
        yield server
        await server.end()


async def ask_and_read_nothing(server: Server) -> socket.socket:
    url, body = httpx.URL(server.url), json.dumps(LONG).encode()
    loop, client = asyncio.get_running_loop(), socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
    client.setblocking(False)
    await loop.sock_connect(client, (url.host, url.port))
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    await loop.sock_sendall(client, head.encode() + body)
    return client


async def rest_of(client: socket.socket) -> bytes:
    loop, rest = asyncio.get_running_loop(), b""
    try:
        while part := await loop.sock_recv(client, 65536):
            rest += part
    except ConnectionResetError:
        pass
    return rest


async def test_a_client_that_reads_nothing_is_dropped_with_the_reason_in_the_log(
    server: Server, reasons: Reasons
) -> None:
    client = await ask_and_read_nothing(server)
    await reasons.heard.wait()
    port = client.getsockname()[1]
    assert reasons.texts == [
        f"127.0.0.1:{port} was dropped: it read too little of its answer for 0.01 seconds"
    ]
    assert b"[DONE]" not in await rest_of(client)
    client.close()


async def test_a_client_that_reads_nothing_holds_up_nobody(
    server: Server, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SECONDS_TO_READ", 600)
    idle = [await ask_and_read_nothing(server) for _ in range(3)]
    async with httpx.AsyncClient(base_url=server.url, timeout=None) as client:
        for _ in range(3):
            assert (await client.post(CHAT, json=SHORT)).status_code == 200
            engines.last.end(-6)
        assert (await client.post(CHAT, json=SHORT)).status_code == 200
    for one in idle:
        one.close()


async def test_what_a_client_left_unread_is_bounded_and_its_cells_are_freed(
    server: Server, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SECONDS_TO_READ", 600)
    monkeypatch.setattr(unread, "MOST_UNREAD", 16)
    client = await ask_and_read_nothing(server)
    engine = engines.last
    await engine.hears(Cancel)
    assert b'"code":"slow_reader"' in await rest_of(client)
    client.close()
