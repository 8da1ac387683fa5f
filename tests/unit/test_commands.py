"""Slash commands: how they are read, completed and refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgekv.errors import InvalidValue
from edgekv.tui.command_actions import NEEDS_QUIET
from edgekv.tui.commands import BY_NAME, COMMANDS, candidates, is_command, parse
from edgekv.tui.file_paths import paths
from tests.conftest import REPOSITORY

BAR = "\\|"
"""In a table of Markdown."""


def offered(text: str) -> list[str]:
    names = {"model": ["gemma-3", "SmolLM2"]}
    return [c.text for c in candidates(text, lambda name, _: names.get(name, []))]


def test_a_command_is_a_slash_and_a_word_and_a_path_is_none() -> None:
    for text in ("/", "/help", "/nonsense", "/system Be brief.\nVery."):
        assert is_command(text)
    for text in ("/etc/passwd", "// comment", " /help", "/2", "what is /help?", "/help/me"):
        assert not is_command(text)


def test_what_follows_a_command_is_its_argument_to_the_last_line() -> None:
    typed = parse("/system  Be brief.\nVery. ")
    assert (typed.command.name, typed.argument) == ("system", "Be brief.\nVery.")
    assert parse("/model ").argument == ""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("/modle x", "There is no command '/modle'; did you mean '/model'?"),
        ("/zzz", "There is no command '/zzz'; /help lists all."),
        ("/rename", "'/rename' needs more: /rename NAME"),
        ("/help me", "'/help' takes nothing after it."),
    ],
)
def test_a_command_that_cannot_be_read_is_answered_with_what_can(text: str, sentence: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse(text)
    assert str(caught.value) == sentence


def test_while_a_name_is_typed_the_commands_that_begin_with_it_are_offered() -> None:
    assert offered("/") == [f"/{c.name}{' ' * bool(c.argument)}" for c in COMMANDS]
    assert offered("/de") == ["/delete", "/detach"]
    assert offered("/zz") == offered("de") == offered("/de\n") == []


def test_behind_a_command_what_may_follow_it_is_offered() -> None:
    assert offered("/model ") == ["/model gemma-3", "/model SmolLM2"]
    assert offered("/model smol") == ["/model SmolLM2"]
    assert offered("/model SmolLM2") == offered("/help ") == []


def test_a_path_goes_on_with_what_is_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Notes and more").mkdir()
    for name in ("notes.md", "other.md", ".hidden", "Notes and more/a.md", "bad\x1b.md"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert paths("") == ("Notes and more/", "notes.md", "other.md")
    assert paths("n") == ("Notes and more/", "notes.md")
    assert paths("./o") == ("./other.md",)
    assert paths(".h") == (".hidden",)
    assert paths("Notes and more/") == paths("Notes and more/A") == ("Notes and more/a.md",)
    assert paths("~/oth") == ("~/other.md",)
    assert paths(f"{tmp_path}/oth") == (f"{tmp_path}/other.md",)
    assert paths("nowhere/x") == paths("~nobody-here/x") == paths("\0/x") == ()


def test_commands_stand_in_the_order_of_the_alphabet_and_those_that_wait_exist() -> None:
    assert [c.name for c in COMMANDS] == sorted(BY_NAME)
    assert set(BY_NAME) >= NEEDS_QUIET


def test_the_chat_page_lists_every_command_in_the_words_of_its_help() -> None:
    page = (REPOSITORY / "docs" / "chat.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `/")]
    assert rows == [
        f"| `/{' '.join(filter(None, (c.name, c.argument.replace('|', BAR))))}` | {c.purpose} |"
        for c in COMMANDS
    ]
