"""A hub for a test, with one small file in every repository."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgekv.models.hub import Hub
from edgekv.models.pull import Wanted, pull
from edgekv.models.quantisations import choose
from edgekv.models.transfer import Hear, Progress
from tests.models.fake_hub import FakeHub, running_hub

FILE = "tiny-Q4_K_M.gguf"
CONTENT = b"GGUF" + bytes(range(256)) * 2_000
"""About half a megabyte: several blocks of a transfer."""


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with running_hub({FILE: CONTENT, "README.md": b"# tiny"}) as hub:
        yield hub


class Puller:
    """Pulls `owner/tiny` from the hub of the test into a folder of the test."""

    def __init__(self, hub: FakeHub, folder: Path) -> None:
        self.hub, self.folder = hub, folder
        self.heard: list[Progress] = []

    def wanted(self, owner: str, token: str | None = None) -> tuple[Hub, Wanted]:
        client = Hub(self.hub.url, token)
        listing = client.list_files(f"{owner}/tiny")
        return client, Wanted(listing, choose(listing, None), self.folder)

    def pull(self, owner: str, hear: Hear | None = None, tries: int = 4) -> Path:
        client, wanted = self.wanted(owner)
        return pull(client, wanted, hear or self.heard.append, waits=lambda: iter([None] * tries))

    @property
    def parts(self) -> list[Path]:
        return sorted(self.folder.rglob("*.part"))


@pytest.fixture
def puller(hub: FakeHub, tmp_path: Path) -> Puller:
    return Puller(hub, tmp_path / "models")
