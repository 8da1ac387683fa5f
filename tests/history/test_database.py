"""The file of the conversations: who may read it, which versions, and where there is none."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from edgekv.errors import NotSaved, Unavailable
from edgekv.history.entries import ConversationId
from edgekv.history.schema import MIGRATIONS, VERSION
from edgekv.history.store import History
from tests.history.saying import (
    num_messages,
    say,
    texts,
    titles,
)


def test_the_file_is_for_its_owner_alone(history: History, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_of_a_newer_version_is_left_as_it_is(path: Path) -> None:
    History(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(Unavailable, match=r"newer EdgeKV .* update EdgeKV"):
        History(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", range(VERSION))
def test_a_file_of_every_older_version_is_brought_up_to_date(path: Path, version: int) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as connection:
        for script in MIGRATIONS[:version]:
            connection.executescript(script)
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    history = History(path)
    say(history, history.begin("t"), "a")
    assert titles(history) == ["t"]
    history.close()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda path: path.parent.write_text("a file"), "File exists"),
        (lambda path: path.mkdir(parents=True), "Is a directory"),
        (lambda path: (path.parent.mkdir(), path.write_text("words " * 99)), "not a database"),
    ],
)
def test_a_place_that_cannot_be_written_is_named_in_one_sentence(
    path: Path, spoil: object, reason: str
) -> None:
    assert callable(spoil)
    spoil(path)
    with pytest.raises(NotSaved) as caught:
        History(path)
    assert str(path) in str(caught.value)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_program_without_a_home_folder_writes_nothing_where_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotSaved, match="XDG_DATA_HOME"):
        History(Path("~/relative.sqlite"))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_another_program_holds_too_long_is_an_error_and_nothing_is_half_written(
    history: History, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgekv.history.database.SECONDS_TO_WAIT", 0)
    hasty = History(path)
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(NotSaved, match="locked"):
        say(hasty, ConversationId(1), "a")
    blocker.execute("ROLLBACK")
    blocker.close()
    assert num_messages(path) == 0
    hasty.close()


def test_without_a_file_everything_works_until_the_program_ends() -> None:
    history = History(None)
    conversation = history.begin("t")
    say(history, conversation, "a", "b")
    assert texts(history, conversation) == ["a", "b"]
    assert titles(history) == ["t"]
    history.close()


def test_a_damaged_file_is_left_as_it_is_and_what_to_do_is_said(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"SQLite format 3\0" + b"no database at all " * 500)
    before = path.read_bytes()
    with pytest.raises(NotSaved, match="move that file away to begin a new one"):
        History(path)
    assert path.read_bytes() == before
