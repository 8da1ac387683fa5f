"""Finding a server of this user that holds a model, and what is not taken for one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec
import psutil
import pytest

from edgekv.config.places import runtime_folder
from edgekv.service.discovery import Notice, announced, servers_of


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGEKV_HOME", str(tmp_path / "edgekv"))
    folder = runtime_folder()
    assert folder is not None
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "a model.gguf"
    path.write_bytes(b"GGUF")
    return path


def test_a_server_is_found_by_its_model_file_while_it_runs(model: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.gguf"
    link.symlink_to(model)
    with announced("http://127.0.0.1:8642", str(link), None, has_key=False):
        [notice] = servers_of(str(model))
        assert (notice.url, notice.pid) == ("http://127.0.0.1:8642", os.getpid())
        assert servers_of(str(tmp_path / "another.gguf")) == []
    assert servers_of(str(model)) == []


def test_only_this_user_may_read_where_the_key_is(model: Path, own_folder: Path) -> None:
    key_file = model.with_suffix(".key")
    with announced("http://127.0.0.1:1", str(model), key_file, has_key=True):
        [path] = own_folder.iterdir()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert servers_of(str(model))[0].key_file == str(key_file)


def test_what_a_killed_server_left_is_ignored_and_removed(model: Path, own_folder: Path) -> None:
    own_folder.mkdir(parents=True)
    began = psutil.Process().create_time()
    left = {
        "serve-1.json": Notice(os.getpid(), began - 100, "http://127.0.0.1:1", str(model)),
        "serve-2.json": Notice(2**22 + 7, began, "http://127.0.0.1:2", str(model)),
    }
    for name, notice in left.items():
        (own_folder / name).write_bytes(msgspec.json.encode(notice))
    (own_folder / "serve-3.json").write_bytes(b'{"pid": "what"')
    assert servers_of(str(model)) == []
    assert [path.name for path in own_folder.iterdir()] == ["serve-3.json"]


def test_without_a_folder_the_server_serves_and_nobody_is_told(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("EDGEKV_HOME", str(tmp_path / "file"))
    with announced("http://127.0.0.1:1", str(model), None, has_key=False):
        assert servers_of(str(model)) == []
    assert "other programs are not told of this server" in caplog.text
