"""A hub for a test, with one small file in every repository, and a home without any models."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgekv.models.hub import Hub
from edgekv.models.pull import Wanted, pull
from edgekv.models.quantisations import choose
from edgekv.models.transfer import Hear, Progress
from tests.models.fake_hub import COMMIT, FakeHub, running_hub

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


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's home, empty, and no models anywhere else."""
    for name in ("HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS", "LLAMA_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("EDGEKV_MODELS", str(tmp_path / "own"))
    (tmp_path / "own").mkdir()
    return tmp_path


def put(path: Path, content: bytes = b"GGUF") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def put_in_hub_cache(home: Path, repository: str, name: str) -> Path:
    """As the hub's own library does it: the name is a link to a blob with another name."""
    place = home / ".cache/huggingface/hub" / ("models--" + repository.replace("/", "--"))
    blob = put(place / "blobs" / f"abc{abs(hash(name))}", name.encode())
    link = place / "snapshots" / COMMIT / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(blob, link.parent))
    return link
