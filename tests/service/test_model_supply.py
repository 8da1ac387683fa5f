"""Getting a model for a screen, from the misbehaving hub."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgekv.errors import HubError
from edgekv.models.hub import Hub
from edgekv.models.transfer import Progress
from edgekv.service.model_supply import ModelSupply
from tests.models.conftest import CONTENT, FILE
from tests.models.fake_hub import FakeHub, running_hub

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with running_hub({FILE: CONTENT}) as hub:
        yield hub


@pytest.fixture
def supply(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelSupply:
    monkeypatch.setenv("EDGEKV_MODELS", str(tmp_path))
    return ModelSupply(lambda: Hub(hub.url, None))


async def test_a_model_arrives_and_its_progress_on_the_loop(
    supply: ModelSupply, tmp_path: Path
) -> None:
    heard: asyncio.Queue[Progress] = asyncio.Queue()
    path = await supply.get("hf:ok/tiny", heard.put_nowait)
    while await heard.get() != Progress(len(CONTENT), len(CONTENT)):
        pass
    assert path == tmp_path / "ok" / "tiny" / FILE
    assert path.read_bytes() == CONTENT


class Slow(ModelSupply):
    """A pull of a thousand blocks, each of which the test lets come."""

    def __init__(self) -> None:
        super().__init__()
        self.lets_come = threading.Semaphore(1)
        self.num_blocks = 0

    def _pull(self, name: str, hear: Callable[[Progress], None]) -> Path:
        for number in range(1000):
            self.lets_come.acquire()
            hear(Progress(number, 1000))
            self.num_blocks += 1
        return Path(name)


async def test_a_cancelled_pull_stops_at_its_next_block_and_has_ended_then() -> None:
    supply, begun = Slow(), asyncio.Event()
    getting = asyncio.create_task(supply.get("any", lambda _: begun.set()))
    await begun.wait()
    getting.cancel()
    asyncio.get_running_loop().call_soon(supply.lets_come.release, 1000)
    with pytest.raises(asyncio.CancelledError):
        await getting
    assert supply.num_blocks == 1


async def test_what_the_hub_refuses_is_said_in_its_words(supply: ModelSupply) -> None:
    with pytest.raises(HubError):
        await supply.get("hf:missing/tiny", lambda _: None)
