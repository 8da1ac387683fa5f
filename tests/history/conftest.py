"""A history in a folder of its own, and a conversation in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgekv.history.archive import Archive
from edgekv.history.dialogue import Dialogue
from edgekv.history.store import History
from tests.history.saying import Clock, SteadyClock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "conversations.sqlite"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def history(path: Path, clock: Clock) -> Iterator[History]:
    history = History(path, clock)
    yield history
    history.close()


@pytest.fixture
def archive(path: Path) -> Iterator[Archive]:
    archive = Archive(path)
    yield archive
    archive.close()


@pytest.fixture
def still() -> SteadyClock:
    return SteadyClock()


@pytest.fixture
def dialogue(archive: Archive, still: SteadyClock) -> Dialogue:
    return Dialogue(archive, still)
