"""Files that are no models, or no longer: one sentence each, and the engine stays alive.

The headers in tests/data/hostile_headers are those of case e03: tiny files whose counts, lengths
and types lie.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgekv.cli.main import run
from edgekv.core.frames import Describe, Described
from edgekv.errors import DamagedModel, ModelError
from edgekv.llama.backend import LlamaLibrary
from edgekv.models.gguf_walk import walk
from edgekv.service.engine_client import EngineClient
from edgekv.service.own_command import own_command
from tests import tiny_models
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.llama

HOSTILE = sorted((REPOSITORY / "tests/data/hostile_headers").glob("*.gguf"))
OTHER_KINDS = {
    "empty": (b"", "empty; download it again"),
    "page": (b"\n<!DOCTYPE html><title>Log in</title>", "a web page.*needed a login"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid", "pointer of Git LFS"),
    "torch": (b"PK\x03\x04\0\0", "zip archive"),
    "safetensors": (b'\x40\0\0\0\0\0\0\0{"__metadata__":{}}', "safetensors"),
    "old": (b"tjgg\x03\0\0\0", "GGUF replaced"),
    "text": (b"just some text", "not a GGUF model"),
}
BIG_ENDIAN = b"GGUF\0\0\0\x03" + b"\0" * 7 + b"\x01" + b"\0" * 200


@pytest.fixture(scope="module")
def library() -> LlamaLibrary:
    return LlamaLibrary(own_command("grammar"))


# The starter's header ends at 1,785,664: in the magic, the counts, the metadata, the vocabulary,
# the table of tensors, before the data, in them, and one byte short.
@pytest.mark.parametrize(
    "length", [2, 4, 20, 500, 500_000, 1_780_000, 1_785_664, 50_000_000, 98_362_431]
)
def test_a_cut_file_is_refused_with_what_is_there(
    library: LlamaLibrary, starter_model: Path, tmp_path: Path, length: int
) -> None:
    with starter_model.open("rb") as file:
        (tmp_path / "cut.gguf").write_bytes(file.read(length))
    with pytest.raises(DamagedModel) as refused:
        library.describe(str(tmp_path / "cut.gguf"))
    text = str(refused.value)
    if length >= 1_785_664:
        assert f"should have 98,362,432 bytes and has {length:,}" in text
    elif length > 2:
        assert f"cut short after {length:,} bytes" in text


def test_bytes_behind_the_last_tensor_do_no_harm_and_are_logged(
    library: LlamaLibrary, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tiny_models.write(tmp_path / "long.gguf", tiny_models.llama())
    whole = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"x" * 17)
    assert library.describe(str(path)).file_bytes == whole + 17
    assert "17 bytes behind its last tensor" in caplog.text


@pytest.mark.parametrize(("content", "words"), OTHER_KINDS.values(), ids=OTHER_KINDS)
def test_another_kind_of_file_is_called_by_its_name(
    library: LlamaLibrary, tmp_path: Path, content: bytes, words: str
) -> None:
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(DamagedModel, match=words):
        library.describe(str(tmp_path / "x.gguf"))


def test_a_big_endian_file_is_called_that(library: LlamaLibrary, tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(BIG_ENDIAN)
    with pytest.raises(DamagedModel, match="endianness"):
        library.describe(str(tmp_path / "x.gguf"))


@pytest.mark.parametrize("path", HOSTILE, ids=lambda path: path.stem)
def test_a_hostile_header_is_refused(library: LlamaLibrary, path: Path) -> None:
    with pytest.raises(ModelError):
        library.describe(str(path))


def test_all_hostile_headers_are_there() -> None:
    assert len(HOSTILE) == 15


@pytest.mark.parametrize("name", ["with space", "Größe 田中 🏠", "-dash", "%41'\"`$(x)"])
def test_odd_names_are_names(library: LlamaLibrary, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    path = tiny_models.write(tmp_path / name / f"{name}.gguf", tiny_models.llama())
    path.chmod(0o400)
    link = tmp_path / "link.gguf"
    link.symlink_to(path)
    assert library.describe(str(path)).architecture == "llama"
    assert library.describe(str(link)).architecture == "llama"


def test_an_unknown_architecture_is_named(library: LlamaLibrary, tmp_path: Path) -> None:
    path = tiny_models.write(tmp_path / "new.gguf", tiny_models.llama())
    content = path.read_bytes().replace(b"llama", b"lemma")
    path.write_bytes(content)
    with pytest.raises(ModelError, match="unknown model architecture: 'lemma'"):
        library.describe(str(path))


@pytest.mark.parametrize("command", ["plan", "serve", "chat"])
@pytest.mark.parametrize("content", [b"", b"<html>", b"GGUF\x03\0\0\0" + b"\xff" * 16])
def test_every_command_says_it_in_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    command: str,
    content: bytes,
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    more = {"chat": ["-p", "hi"], "serve": ["--port", "0"]}.get(command, [])
    assert run([command, str(path), *more]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert [line for line in err.splitlines() if "x.gguf is" in line]
    assert "Traceback" not in err


def spoilt(content: bytes, changes: list[tuple[int, bytes]], length: int) -> bytes:
    """`content` with bytes replaced at some places, and cut."""
    spoiled = bytearray(content)
    for place, new in changes:
        at = place % len(content)
        spoiled[at : at + len(new)] = new
    return bytes(spoiled[: length % len(spoiled) + 1])


changes = st.lists(st.tuples(st.integers(0, 2**20), st.binary(min_size=1, max_size=9)), max_size=4)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def engine(runner: asyncio.Runner) -> Iterator[EngineClient]:
    """One engine process for all examples."""
    client = runner.run(EngineClient.start())
    yield client
    runner.run(client.close())


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("base")
    return tiny_models.write(folder / "base.gguf", tiny_models.llama(layers=1)).read_bytes()


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=changes, length=st.integers(0, 2**20))
def test_no_header_ends_the_engine_or_the_walk(
    runner: asyncio.Runner,
    engine: EngineClient,
    base: bytes,
    tmp_path: Path,
    edits: list[tuple[int, bytes]],
    length: int,
) -> None:
    """Every answer is a description or a refusal; an engine that dies would be neither."""
    content = spoilt(base, edits, length)
    path = tmp_path / "spoilt.gguf"
    path.write_bytes(content)

    async def ask() -> None:
        with contextlib.suppress(ModelError):
            reply = await engine.call(lambda call: Describe(call, str(path)))
            assert isinstance(reply, Described)

    def read(at: int, length: int) -> bytes:
        return content[at : at + length]

    runner.run(ask())
    with contextlib.suppress(ModelError):
        assert walk(read, len(content)).num_bytes <= len(content)
