"""Folders of a user with a home, without one, and with one that is no folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from edgekv.config import places
from edgekv.errors import Unavailable
from edgekv.service.own_command import own_command

EVERY = [
    places.config_folder,
    places.data_folder,
    places.cache_folder,
    places.log_folder,
    places.runtime_folder,
]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv(places.HOME_VARIABLE, raising=False)


@pytest.mark.parametrize("home", ["", "/", "/dev/null", "/nonexistent", "relative"])
def test_a_home_that_is_nobodys_folder_is_no_home(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", home)
    assert [folder() for folder in EVERY] == [None] * len(EVERY)


def test_a_home_may_have_any_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "Ünï 田中"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for folder in EVERY:
        assert places.made(folder(), "tests").is_relative_to(home)


def test_one_variable_moves_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.setenv(places.HOME_VARIABLE, str(tmp_path))
    found = [folder() for folder in EVERY]
    assert found == [tmp_path / name for name in ("config", "data", "cache", "log", "run")]


def test_a_folder_a_user_names_needs_no_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert places.cache_folder() == tmp_path / "edgekv"
    assert places.data_folder() is None


def test_what_runs_is_told_of_in_the_users_own_runtime_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert places.runtime_folder() == tmp_path / "edgekv"


def test_a_folder_is_made_for_its_user_alone(tmp_path: Path) -> None:
    folder = places.made(tmp_path / "a" / "b", "tests")
    assert folder.stat().st_mode & 0o777 == 0o700


def test_where_no_folder_can_be_made_the_variable_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (None, tmp_path / "file" / "models"):
        with pytest.raises(Unavailable, match=r"models.*EDGEKV_HOME"):
            places.made(folder, "models")


def test_any_letters_work_in_a_locale_that_has_none_of_them(tmp_path: Path) -> None:
    home = tmp_path / "Ünï 田中"
    home.mkdir()
    (home / "한국어.gguf").write_bytes(b"GGUF, and no more")
    poor = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "HOME": str(home)}
    for command, code in ((["config", "path"], 0), (["plan", str(home / "한국어.gguf")], 1)):
        done = subprocess.run([*own_command("")[:-1], *command], capture_output=True, env=poor)
        assert b"Traceback" not in done.stderr
        assert done.returncode == code, done.stderr
    assert list(tmp_path.iterdir()) == [home]
