"""`edgekv serve`: what it refuses before anything is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgekv.cli.main import run
from edgekv.server.run import listen


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--host", "0.0.0.0"), "give it a key with --api-key"),
        (("--host", "::"), "give it a key with --api-key"),
        (("--api-key", ""), "printable ASCII"),
        (("--api-key", "two words"), "printable ASCII"),
        (("--api-key", "schlüssel"), "printable ASCII"),
        (("--cors", "example.org"), "is not an origin"),
        (("--cors", "https://example.org/"), "is not an origin"),
        (("--port", "70000"), "70000"),
        (("--api-key-file", "/nowhere"), "/nowhere"),
    ],
)
def test_wrong_options_are_refused_in_one_sentence(
    starter_model: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    words: str,
) -> None:
    assert run(["serve", str(starter_model), *options]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


@pytest.mark.parametrize("content", [b"", b"\n", b"a b", b"\xff\xfe"])
def test_a_key_file_without_a_key_is_refused(
    starter_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    assert run(["serve", str(starter_model), "--api-key-file", str(file)]) == 2
    assert "printable ASCII" in capsys.readouterr().err


def test_two_keys_are_refused(
    starter_model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EDGEKV_API_KEY", "one")
    file = tmp_path / "key"
    file.write_text("two\n")
    assert run(["serve", str(starter_model), "--api-key-file", str(file)]) == 2
    assert "Give the key once" in capsys.readouterr().err


def test_a_port_that_is_taken_ends_in_one_sentence(
    starter_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert run(["serve", str(starter_model), "--port", str(port)]) == 1
    said = capsys.readouterr().err
    assert f"port {port}" in said
    assert "--port" in said
    assert said.count("\n") == 1
