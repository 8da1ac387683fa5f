"""Models in several files (case e08): whole sets open like one file, others are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from edgekv.cli.main import run
from edgekv.core.plan import Opening
from edgekv.errors import DamagedModel, ModelError
from edgekv.llama.backend import LlamaBackend, LlamaLibrary
from edgekv.models.finding import find_model
from edgekv.service.own_command import own_command
from tests.llama.test_backend import CHOICE, TEXT, A, compute, tokens_of
from tests.models.gguf_files import split_gguf

pytestmark = pytest.mark.llama


@pytest.fixture(scope="module")
def library() -> LlamaLibrary:
    return LlamaLibrary(own_command("grammar"))


@pytest.fixture(scope="module")
def parts(starter_model: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return split_gguf(starter_model, tmp_path_factory.mktemp("set"), "smol", 3)


@pytest.fixture
def copies(parts: list[Path], tmp_path: Path) -> list[Path]:
    """The set again, to be spoilt: links, so that nothing is copied."""
    links = [tmp_path / part.name for part in parts]
    for link, part in zip(links, parts, strict=True):
        link.symlink_to(part)
    return links


def logits_of(library: LlamaLibrary, path: Path) -> np.ndarray:
    opened, _, _ = library.open(Opening(str(path), CHOICE), lambda _: None)
    assert isinstance(opened, LlamaBackend)
    try:
        return compute(opened, A, 0, tokens_of(opened, TEXT)[:40])
    finally:
        opened.close()


def test_a_set_computes_what_the_one_file_does(
    library: LlamaLibrary, starter_model: Path, parts: list[Path], copies: list[Path]
) -> None:
    whole = logits_of(library, starter_model)
    assert np.array_equal(logits_of(library, find_model(str(parts[0].parent))), whole)
    # As in the hub's cache, where the names are links to files of other names.
    assert np.array_equal(logits_of(library, find_model(str(copies[1]))), whole)


def test_a_set_is_sized_as_a_whole(
    library: LlamaLibrary, starter_model: Path, parts: list[Path]
) -> None:
    whole, of_set = library.describe(str(starter_model)), library.describe(str(parts[0]))
    assert of_set.file_bytes == sum(part.stat().st_size for part in parts)
    assert of_set.weight_bytes == whole.weight_bytes
    alike = replace(whole, path=of_set.path, file_bytes=of_set.file_bytes, metadata={})
    assert replace(of_set, metadata={}) == alike


def test_a_missing_part_is_named(library: LlamaLibrary, copies: list[Path]) -> None:
    copies[1].unlink()
    with pytest.raises(ModelError, match="smol-00002-of-00003"):
        library.describe(str(copies[0]))


def test_swapped_parts_are_found_out(library: LlamaLibrary, copies: list[Path]) -> None:
    copies[1].rename(copies[1].with_name("x"))
    copies[2].rename(copies[1])
    copies[1].with_name("x").rename(copies[2])
    with pytest.raises(DamagedModel, match=r"smol-00002-of-00003.gguf is not what its name says"):
        library.describe(str(copies[0]))


def test_parts_of_another_model_are_found_out(
    library: LlamaLibrary, copies: list[Path], gemma_model: Path, tmp_path: Path
) -> None:
    other = split_gguf(gemma_model, tmp_path / "other", "smol", 3)
    copies[1].unlink()
    other[1].rename(copies[1])
    with pytest.raises(DamagedModel, match=r"of different models: .* the first says 272"):
        library.describe(str(copies[0]))


def test_a_cut_part_is_found_out_with_both_sizes(library: LlamaLibrary, copies: list[Path]) -> None:
    content = copies[2].read_bytes()
    copies[2].unlink()
    copies[2].write_bytes(content[:-1])
    with pytest.raises(DamagedModel, match=rf"{len(content):,} bytes and has {len(content) - 1:,}"):
        library.describe(str(copies[0]))


@pytest.mark.parametrize("number", [0, 1])
def test_a_renamed_part_says_what_it_was(
    library: LlamaLibrary, copies: list[Path], number: int
) -> None:
    renamed = copies[number].rename(copies[number].with_name("model.gguf"))
    with pytest.raises(DamagedModel, match=rf"it is file {number + 1} of 3 .* its name does not"):
        library.describe(str(renamed))


def test_parts_that_were_joined_are_told_not_to_be(
    library: LlamaLibrary, parts: list[Path], tmp_path: Path
) -> None:
    joined = tmp_path / "joined.gguf"
    joined.write_bytes(b"".join(part.read_bytes() for part in parts))
    with pytest.raises(DamagedModel, match="do not join them"):
        library.describe(str(joined))


def test_a_spoilt_set_gets_no_plan(copies: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    renamed = copies[0].rename(copies[0].with_name("model.gguf"))
    assert run(["plan", str(renamed)]) == 1
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
