"""Chat in plain lines: what is asked, said and kept, on a scripted model."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from edgekv.cli.plain_chat import converse
from edgekv.history.archive import Archive
from edgekv.history.dialogue import Dialogue
from edgekv.service.conversation import ChatModel
from tests.history.saying import exchange, titles
from tests.tui.fakes import PlainFormat, Script, ScriptedWorker, asked


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """One with a conversation about lighthouses that was changed last."""
    archive = Archive(tmp_path / "conversations.sqlite")
    exchange(Dialogue(archive), "About lighthouses", "They shine.")
    archive.resume_last()
    return archive


def talk(
    archive: Archive, typed: str, monkeypatch: pytest.MonkeyPatch, *, goes_on: bool
) -> ScriptedWorker:
    """What the worker was asked when these lines were typed."""
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    worker = ScriptedWorker(Script(words=("It rises.",)))
    converse(ChatModel(worker, PlainFormat), "model", archive, goes_on=goes_on)
    return worker


def test_a_new_conversation_begins_and_one_that_broke_off_is_named(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = archive.history.path
    worker = talk(archive, "About bread\n", monkeypatch, goes_on=False)
    out, err = capsys.readouterr()
    assert out == "> It rises.\n> \n"
    assert err == (
        "edgekv: EdgeKV ended in the middle of an answer, in “About lighthouses”; "
        "'edgekv chat --continue' goes on there\n"
    )
    assert asked(worker.submits[0]) == ["user: About bread"]
    assert titles(Archive(path).history) == ["About bread", "About lighthouses"]


def test_going_on_names_the_conversation_and_shows_its_end(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = talk(archive, "Still?\n", monkeypatch, goes_on=True)
    out, err = capsys.readouterr()
    assert out == "They shine.\n> It rises.\n> \n"
    assert err == "edgekv: going on with “About lighthouses”\n"
    assert asked(worker.submits[0])[-2:] == ["assistant: They shine.", "user: Still?"]
