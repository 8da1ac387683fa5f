"""Clients that leave, again and again, leave nothing behind.

ggml-org/llama.cpp#11720 and #24496, ikawrakow/ik_llama.cpp#1020: work went on after they left.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import psutil
import pytest

from edgekv.service.worker import Worker
from tests.server.in_loop_engine import Engines
from tests.server.in_loop_server import PATIENCE_SECONDS, Server
from tests.server.test_lifetime import Caller, when_idle
from tests.unit.test_recovery import OthersRun

pytestmark = pytest.mark.anyio

ROUNDS = 12
# Without a chat template, whose process would be something new that stays.
PATH, LONG = "/v1/completions", {"prompt": "hi", "max_tokens": 400, "ignore_eos": True}


@pytest.fixture
async def server(unstarted: tuple[Worker, Engines]) -> AsyncIterator[Server]:
    async with asyncio.timeout(4 * PATIENCE_SECONDS):
        server = Server(unstarted[0])
        await server.started()
        yield server
        await server.end()


async def leave_once(server: Server, number: int) -> None:
    """Before the answer, while it waits behind another, or in the middle of it."""
    callers = [await Caller.ask(server, {**LONG, "stream": True}, PATH) for _ in range(3)]
    if number % 3 == 1:
        await callers[0].reader.readuntil(b"data: ")
    if number % 3 == 2:
        callers.append(await Caller.ask(server, {**LONG, "stream": False}, PATH))
    for caller in callers:
        await caller.leave()


def held() -> tuple[int, int, int]:
    """Open files, threads and tasks."""
    return psutil.Process().num_fds(), threading.active_count(), len(asyncio.all_tasks())


async def test_clients_that_leave_again_and_again_leave_nothing_behind(
    server: Server, engines: Engines
) -> None:
    before = held()
    for number in range(ROUNDS):
        await leave_once(server, number)
    while held() != before:
        await OthersRun()
    snapshot = await when_idle(server.worker, engines.last)
    assert snapshot.num_running == snapshot.num_waiting == snapshot.cells_reserved == 0
