"""The walk over a GGUF header: it says what ggml's reader says, and reads no more than it must."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgekv.errors import ModelError
from edgekv.llama.gguf import read_header
from edgekv.models.gguf_walk import Walked, walk
from tests import tiny_models
from tests.conftest import REPOSITORY
from tests.models.gguf_files import header, key

HOSTILE = sorted((REPOSITORY / "tests/data/hostile_headers").glob("*.gguf"))
# These lie about what the model needs, or in ways that cost a reader nothing.
READABLE = {
    "alignment_1G",
    "alignment_zero",
    "ctx_4G",
    "head_count_zero",
    "key_not_utf8",
    "tensor_dims_overflow",
    "tensor_offset_past_end",
}
STRING, ARRAY = 8, 9


class Counted:
    """Bytes of a file, and how many of them were asked for."""

    def __init__(self, content: bytes) -> None:
        self.content, self.read_bytes, self.calls = content, 0, 0

    def read(self, at: int, length: int) -> bytes:
        self.calls += 1
        piece = self.content[at : at + length]
        self.read_bytes += len(piece)
        return piece

    def walk(self, *, whole: bool = True) -> Walked:
        return walk(self.read, len(self.content), whole=whole)


@pytest.mark.parametrize("model", ["starter_model", "gemma_model"])
def test_it_says_what_ggml_says(request: pytest.FixtureRequest, model: str) -> None:
    path: Path = request.getfixturevalue(model)
    theirs = read_header(str(path))
    assert theirs is not None
    file = Counted(path.read_bytes())
    ours = file.walk()
    assert ours.metadata == theirs.metadata
    assert ours.num_tensors == theirs.num_tensors
    assert ours.tensor_bytes == theirs.tensor_bytes
    assert ours.whole_bytes == theirs.file_bytes == len(file.content)
    # A few bytes are read twice where a block ends within a word.
    assert file.read_bytes < ours.num_bytes * 1.2


@pytest.mark.parametrize("build", tiny_models.ALL, ids=lambda build: build.__name__)
def test_it_reads_every_architecture_that_the_tests_can_write(
    tmp_path: Path, build: Callable[[], tiny_models.TinyModel]
) -> None:
    path = tiny_models.write(tmp_path / "tiny.gguf", build())
    theirs = read_header(str(path))
    assert theirs is not None
    ours = Counted(path.read_bytes()).walk()
    assert (ours.metadata, ours.tensor_bytes) == (theirs.metadata, theirs.tensor_bytes)


def test_what_describes_a_model_is_read_without_its_vocabulary(starter_model: Path) -> None:
    file = Counted(starter_model.read_bytes())
    walked = file.walk(whole=False)
    assert walked.metadata["llama.block_count"] == "30"
    assert file.read_bytes < 100_000


@pytest.mark.parametrize("path", HOSTILE, ids=lambda path: path.stem)
def test_a_header_that_lies_costs_no_more_than_it_is_long(path: Path) -> None:
    file = Counted(path.read_bytes())
    try:
        file.walk()
    except ModelError as refusal:
        is_readable, sentence = False, str(refusal)
    else:
        is_readable, sentence = True, "it"
    assert is_readable == (path.stem in READABLE)
    assert sentence.startswith("it")
    # A vocabulary is read in blocks, so a few bytes come twice.
    assert file.read_bytes <= 2 * len(file.content)
    assert file.calls <= len(file.content)


@pytest.mark.parametrize("length", range(0, 200, 7))
def test_a_header_that_ends_too_early_is_told_its_length(starter_model: Path, length: int) -> None:
    with starter_model.open("rb") as file:
        content = file.read(length)
    with pytest.raises(ModelError, match=rf"after {length} bytes|more than its {length} bytes"):
        Counted(content).walk()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"GGML" + b"\0" * 40, "not a GGUF model"),
        (b"GGUF\0\0\0\x03" + b"\0" * 40, "big-endian"),
        (b"GGUF\x09\0\0\0" + b"\0" * 40, "of version 9"),
        (header([key("a", 99, b"")]), "a value of kind 99"),
        (header([key("a", ARRAY, b"\x09\0\0\0" + b"\0" * 8)]), "a list of kind 9"),
    ],
)
def test_a_header_that_nobody_reads_is_called_what_it_is(content: bytes, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        Counted(content).walk()


def test_a_list_of_texts_may_not_be_longer_than_the_file() -> None:
    texts = b"\x08\0\0\0" + (2**40).to_bytes(8, "little")
    with pytest.raises(ModelError, match="promises 1,099,511,627,776 items"):
        Counted(header([key("a", ARRAY, texts)])).walk()
