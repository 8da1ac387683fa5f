"""Getting a model for a screen, from the misbehaving hub."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from edgekv.errors import Unavailable
from edgekv.models.transfer import Progress
from edgekv.service.model_supply import ModelSupply
from tests.models.fake_hub import FakeHub, running_hub
from tests.tiny_models import llama, write

pytestmark = pytest.mark.anyio

FILE, LARGE = "tiny-F32.gguf", "large-F32.gguf"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A model that fits everywhere, and one whose every token takes gigabytes."""
    folder, model = tmp_path_factory.mktemp("hub"), llama()
    heads = {"attention.key_length": 1 << 26, "attention.value_length": 1 << 26}
    large = replace(model, keys={**model.keys, **heads})
    models = {FILE: model, LARGE: large}
    return {name: write(folder / name, model).read_bytes() for name, model in models.items()}


@pytest.fixture
def hub(
    contents: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeHub]:
    with running_hub(contents) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("EDGEKV_MODELS", str(tmp_path))
        yield hub


async def get(name: str) -> list[Progress | str]:
    heard: list[Progress | str] = []
    await ModelSupply().get(name, heard.append)
    return heard


def num_children() -> int:
    return len(psutil.Process().children())


async def test_a_model_arrives_after_its_header_was_looked_at(
    hub: FakeHub, contents: dict[str, bytes], tmp_path: Path
) -> None:
    heard = await get(f"hf:ok/tiny:{FILE}")
    size = len(contents[FILE])
    assert isinstance(heard[0], str)
    assert heard[0].startswith(f"{FILE} of ok/tiny, ")
    assert heard[-1] == Progress(size, size)
    assert (tmp_path / "ok" / "tiny" / FILE).read_bytes() == contents[FILE]
    assert hub.ranges == [f"bytes=0-{size - 1}", None]


async def test_a_model_that_cannot_fit_is_refused_by_its_header_alone(
    hub: FakeHub, tmp_path: Path
) -> None:
    with pytest.raises(Unavailable, match="one conversation of 512 tokens needs"):
        await get(f"hf:ok/tiny:{LARGE}")
    assert None not in hub.ranges
    assert list(tmp_path.rglob("*.gguf*")) == []


async def test_a_cancelled_pull_ends_although_its_hub_is_silent_and_the_next_goes_on(
    hub: FakeHub, contents: dict[str, bytes], tmp_path: Path
) -> None:
    before = num_children()
    getting = asyncio.create_task(get(f"hf:stop/tiny:{FILE}"))
    await asyncio.to_thread(hub.reached.wait)
    getting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await getting
    assert num_children() == before
    assert not hub.go_on.is_set()
    there = sum(part.stat().st_size for part in tmp_path.rglob("*.part"))
    await get(f"hf:stop/tiny:{FILE}")
    assert hub.ranges[-1] == (f"bytes={there}-" if there else None)
    assert (tmp_path / "stop" / "tiny" / FILE).read_bytes() == contents[FILE]


async def test_what_the_hub_refuses_is_said_in_its_words(hub: FakeHub) -> None:
    with pytest.raises(Unavailable, match="has no repository or file missing/tiny"):
        await get("hf:missing/tiny")


async def test_a_pull_whose_process_is_killed_says_so_and_can_go_on(hub: FakeHub) -> None:
    getting = asyncio.create_task(get(f"hf:stop/tiny:{FILE}"))
    await asyncio.to_thread(hub.reached.wait)
    (child,) = [p for p in psutil.Process().children() if "fetch" in p.cmdline()]
    child.kill()
    with pytest.raises(Unavailable, match="was ended; get it again to go on"):
        await getting
