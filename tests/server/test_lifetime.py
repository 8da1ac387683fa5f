"""The whole server on a real port: loading, clients that leave, a dying engine, the signal."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections.abc import AsyncIterator

import httpx
import pytest

from edgekv.core.frames import Cancel, Snapshot, Submit
from edgekv.errors import ModelError, Unavailable
from edgekv.server import run, sse
from edgekv.service.states import State
from edgekv.service.worker import Worker
from tests.fakes import FakeLibrary
from tests.server.in_loop_engine import MODEL_PATH, Engines, InLoopEngine
from tests.server.in_loop_server import CHAT, HI, LONG, PATIENCE_SECONDS, Server

pytestmark = pytest.mark.anyio


class Caller:
    """A client that can misbehave: one request on one socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def ask(cls, server: Server, body: object, path: str = CHAT) -> Caller:
        url = httpx.URL(server.url)
        caller = cls(*await asyncio.open_connection(url.host, url.port))
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n\r\n"
        caller.writer.write(head.encode() + content)
        return caller

    async def leave(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


@pytest.fixture
async def server(
    unstarted: tuple[Worker, Engines], caplog: pytest.LogCaptureFixture
) -> AsyncIterator[Server]:
    worker, engines = unstarted
    async with asyncio.timeout(PATIENCE_SECONDS):
        server = Server(worker)
        async with httpx.AsyncClient(timeout=PATIENCE_SECONDS) as client:
            # Once this is answered, signals are heard too.
            await client.get(f"{server.url}/health")
        if not engines.holds_open:
            await server.started()
        yield server
        if not server.running.done():
            await server.end()
        assert worker.state is State.CLOSED
    # Whatever a client does, it is no mistake of ours.
    records = [*caplog.get_records("call"), *caplog.records]
    assert [r.getMessage() for r in records if r.levelno >= logging.ERROR] == []


@pytest.fixture
async def client(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client:
        yield client


async def when_idle(worker: Worker, engine: InLoopEngine) -> Snapshot:
    await engine.idle.wait()
    # The answer to a call comes behind every event sent before it.
    await worker.detokenize(())
    return worker.snapshot


@pytest.fixture
def held_while_loading(unstarted: tuple[Worker, Engines]) -> Engines:
    """Named before `server`, the engine stands still with the model half open."""
    unstarted[1].holds_open = True
    return unstarted[1]


async def test_a_loading_server_answers_that_it_loads(
    held_while_loading: Engines, server: Server, client: httpx.AsyncClient
) -> None:
    health = await client.get("/health")
    assert (health.status_code, health.json()) == (503, {"status": "loading", "loaded": 0.0})
    for path in ("/v1/models", "/plan"):
        assert (await client.get(path)).status_code == 503
    early = await client.post(CHAT, json=HI)
    assert (early.status_code, early.json()["error"]["code"]) == (503, "not_ready")
    assert early.headers["retry-after"] == "1"
    held_while_loading.last.go_on()
    await server.started()
    assert (await client.post(CHAT, json=HI)).status_code == 200


async def test_a_signal_ends_a_server_that_still_loads(
    held_while_loading: Engines, server: Server
) -> None:
    assert await server.end(signal.SIGINT) is signal.SIGINT
    assert not server.ready.is_set()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_frees_its_cells(
    server: Server, engines: Engines, stream: bool
) -> None:
    """While it waits for its turn, before anything was computed."""
    engine = engines.last
    engine.hold()
    caller = await Caller.ask(server, {**LONG, "stream": stream})
    await engine.hears(Submit)
    await caller.leave()
    await engine.hears(Cancel)
    engine.go_on()
    snapshot = await when_idle(server.worker, engine)
    assert snapshot.num_running == snapshot.num_waiting == 0


async def test_a_client_that_leaves_in_the_middle_of_a_stream_frees_its_cells(
    server: Server, engines: Engines
) -> None:
    engine = engines.last
    caller = await Caller.ask(server, {**LONG, "stream": True})
    await caller.reader.readuntil(b"data: ")
    engine.hold()
    await caller.leave()
    await engine.hears(Cancel)
    engine.go_on()
    snapshot = await when_idle(server.worker, engine)
    assert snapshot.num_running == snapshot.cells_reserved == 0


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_only_closes_its_sending_side_gets_its_answer(
    server: Server, engines: Engines, stream: bool
) -> None:
    engine = engines.last
    engine.hold()
    caller = await Caller.ask(server, {**HI, "stream": stream})
    await engine.hears(Submit)
    caller.writer.write_eof()
    if not stream:
        interim = await caller.reader.readuntil(b"\r\n\r\n")
        assert interim == b"HTTP/1.1 100 Continue\r\n\r\n"
    engine.go_on()
    answer = await caller.reader.read()
    assert b"HTTP/1.1 200 OK" in answer
    assert b"[DONE]" in answer if stream else b'"Hello there, friend."' in answer
    await caller.leave()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_after_closing_its_sending_side_is_noticed(
    server: Server, engines: Engines, stream: bool
) -> None:
    engine = engines.last
    caller = await Caller.ask(server, {**LONG, "stream": stream})
    await engine.hears(Submit)
    engine.hold()
    caller.writer.write_eof()
    await caller.reader.readuntil(b"\r\n\r\n")
    await caller.leave()
    await engine.hears(Cancel)


async def test_a_silent_stream_sends_heartbeats(
    server: Server, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT_SECONDS", 0.01)
    engine = engines.last
    engine.hold()
    caller = await Caller.ask(server, {**HI, "stream": True})
    await caller.reader.readuntil(sse.HEARTBEAT)
    engine.go_on()
    await caller.reader.readuntil(b"[DONE]")
    await caller.leave()


async def test_an_engine_that_dies_costs_no_answer_and_the_log_says_how(
    client: httpx.AsyncClient, engines: Engines, caplog: pytest.LogCaptureFixture
) -> None:
    engine = engines.last
    engine.hold()
    asking = asyncio.create_task(client.post(CHAT, json=HI))
    await engine.hears(Submit)
    engine.end(-6)
    assert (await asking).status_code == 200
    assert "edgekv_engine_restarts_total 1.0" in (await client.get("/metrics")).text
    assert "ended (signal 6), so it is started again; answers under way go on." in caplog.text


async def test_a_request_that_the_engine_dies_of_fails_alone(
    client: httpx.AsyncClient, engines: Engines
) -> None:
    engines.last.dies_of_requests = engines.die_of_requests = True
    died = await client.post(CHAT, json=HI)
    assert (died.status_code, died.json()["error"]["code"]) == (500, "engine_died")
    assert died.json()["error"]["type"] == "server_error"
    assert died.headers["x-should-retry"] == "false"
    engines.die_of_requests = False
    assert (await client.post(CHAT, json=HI)).status_code == 200
    metrics = (await client.get("/metrics")).text
    assert 'edgekv_requests_total{outcome="failed"} 1.0' in metrics


async def test_a_restarting_engine_is_not_a_loading_one(
    client: httpx.AsyncClient, engines: Engines
) -> None:
    engines.last.end(-6)
    engines.holds_open = True
    asking = asyncio.create_task(client.post(CHAT, json=HI))
    while len(engines.started) < 2:
        await client.get("/health")
    assert (await client.get("/health")).json() == {"status": "restarting"}
    engines.last.go_on()
    assert (await asking).status_code == 200


async def test_a_stream_that_breaks_ends_with_an_error_and_without_done(
    server: Server, engines: Engines
) -> None:
    caller = await Caller.ask(server, {**LONG, "stream": True})
    await caller.reader.readuntil(b"data: ")
    engines.die_of_requests = True
    engines.last.end(-9)
    rest = (await caller.reader.readuntil(b"\r\n0\r\n\r\n")).decode()
    assert '"code":"engine_died"' in rest
    assert "[DONE]" not in rest
    await caller.leave()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_running_streams_and_frees_the_port(
    server: Server, engines: Engines, number: signal.Signals
) -> None:
    caller = await Caller.ask(server, {**LONG, "stream": True})
    await caller.reader.readuntil(b"data: ")
    engines.last.hold()
    assert await server.end(number) is number
    rest = (await caller.reader.read()).decode()
    assert '"error"' in rest
    assert "[DONE]" not in rest
    url = httpx.URL(server.url)
    run.listen(url.host, url.port or 0).close()
    await caller.leave()


async def test_a_model_that_cannot_be_loaded_ends_the_server(
    unstarted: tuple[Worker, Engines], library: FakeLibrary
) -> None:
    library.missing.add(MODEL_PATH)
    worker, _ = unstarted
    with pytest.raises(ModelError, match="There is no model"):
        await Server(worker).running


def test_a_port_that_is_taken_is_said_with_the_remedy() -> None:
    with run.listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(
            Unavailable, match=rf"port {port} \([a-z ]*\); choose another with --port"
        ):
            run.listen("127.0.0.1", port)


async def test_what_is_not_http_is_answered_in_json(server: Server) -> None:
    url = httpx.URL(server.url)
    caller = Caller(*await asyncio.open_connection(url.host, url.port))
    caller.writer.write(b"hello\r\n\r\n")
    head, body = (await caller.reader.read()).split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    error = json.loads(body)["error"]
    assert error["message"] == "Invalid HTTP request received."
    assert error["code"] == "invalid_request"
    await caller.leave()
