from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from edgekv.server.api import Api
from edgekv.server.app import create_app
from edgekv.server.guard import Access
from edgekv.service.worker import Worker
from tests.fakes import FakeLibrary
from tests.server.in_loop_engine import Engines, in_loop_worker

BASE_URL = "http://127.0.0.1:8642"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def library(request: pytest.FixtureRequest) -> FakeLibrary:
    return FakeLibrary(answer=getattr(request, "param", "Hello there, friend."))


@pytest.fixture
def unstarted(
    library: FakeLibrary, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[tuple[Worker, Engines]]:
    # What other tests said is on no disk of this one.
    monkeypatch.setenv("EDGEKV_HOME", str(tmp_path))
    with in_loop_worker(library) as pair:
        yield pair


@pytest.fixture
async def worker(unstarted: tuple[Worker, Engines]) -> AsyncIterator[Worker]:
    worker, _ = unstarted
    await worker.start()
    yield worker
    await worker.close()


@pytest.fixture
def engines(unstarted: tuple[Worker, Engines]) -> Engines:
    return unstarted[1]


@pytest.fixture
async def client(worker: Worker) -> AsyncIterator[httpx.AsyncClient]:
    """The app in this process; answers arrive when they are complete."""
    api = Api(worker)
    transport = httpx.ASGITransport(create_app(api, Access("127.0.0.1")))
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
        yield client
    await api.close()
