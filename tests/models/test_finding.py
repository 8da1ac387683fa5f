"""What a user calls a model, and the file that is opened for it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from edgekv.errors import ModelError
from edgekv.models.catalogue import STARTER, catalogue
from edgekv.models.finding import find_model
from edgekv.models.folders import Origin
from edgekv.models.shelf import local_models
from tests.models.conftest import put, put_in_hub_cache

STARTER_FILE = catalogue()[STARTER].files[0].name


def put_in_ollama(home: Path, model: str, tag: str) -> Path:
    folder = home / ".ollama/models"
    manifest = {
        "layers": [
            {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:77", "size": 4},
            {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:88", "size": 9},
        ]
    }
    put(
        folder / f"manifests/registry.ollama.ai/library/{model}/{tag}",
        json.dumps(manifest).encode(),
    )
    return put(folder / "blobs/sha256-77")


def test_without_a_name_the_starter_is_meant(home: Path) -> None:
    file = put(home / "own" / STARTER_FILE)
    assert find_model(None) == find_model("starter") == find_model(STARTER) == file


def test_a_missing_starter_says_how_to_get_it(home: Path) -> None:
    with pytest.raises(ModelError, match=r"'edgekv pull starter', or see .* 'edgekv models'"):
        find_model(None)


@pytest.mark.parametrize(
    "name", ["plain.gguf", "with spaces.gguf", "Größe 田中.gguf", "UPPER.GGUF", "no suffix"]
)
def test_a_path_is_opened_as_it_is(home: Path, name: str) -> None:
    file = put(home / "somewhere" / name)
    assert find_model(str(file)) == file
    assert find_model(f"~/somewhere/{name}") == file


def test_a_link_is_opened_by_its_own_name(home: Path) -> None:
    link = home / "link.gguf"
    link.symlink_to(put(home / "blob"))
    assert find_model(str(link)) == link


@pytest.mark.skipif(sys.platform == "win32", reason="has no named pipes in folders")
def test_a_pipe_is_refused_and_not_waited_for(home: Path) -> None:
    pipe = home / "pipe.gguf"
    os.mkfifo(pipe)
    with pytest.raises(ModelError, match=r"pipe\.gguf' is neither a file nor a folder"):
        find_model(str(pipe))


def test_a_catalogue_name_finds_its_file_in_any_known_folder(home: Path) -> None:
    name = catalogue()["qwen3-4b"].files[0].name
    with pytest.raises(ModelError, match="get it with 'edgekv pull qwen3-4b'"):
        find_model("qwen3-4b")
    file = put(home / ".lmstudio/models/Qwen/Qwen3-4B-GGUF" / name)
    assert find_model("Qwen3-4B") == file


def test_the_hubs_own_cache_is_used_in_place_and_by_its_names(home: Path) -> None:
    link = put_in_hub_cache(home, "owner/Some-GGUF", "some-Q4_K_M.gguf")
    put_in_hub_cache(home, "owner/Some-GGUF", "some-Q8_0.gguf")
    assert find_model("hf:owner/Some-GGUF:Q4_K_M") == link
    assert find_model("hf:owner/Some-GGUF:some-Q4_K_M.gguf") == link
    assert find_model("some-q4_k_m") == link
    with pytest.raises(ModelError, match=r"may be any of some-Q4_K_M.gguf, some-Q8_0.gguf"):
        find_model("hf:owner/Some-GGUF")


def test_a_hub_model_that_is_not_here_says_how_to_get_it(home: Path) -> None:
    with pytest.raises(ModelError, match=r"get it with 'edgekv pull hf:owner/Some-GGUF:Q4_0'"):
        find_model("hf:owner/Some-GGUF:Q4_0")


@pytest.mark.parametrize("name", ["hf:owner", "hf:a/b/c", "hf:../x", "hf:owner/x:", "hf:o/..x"])
def test_a_malformed_hub_name_says_how_to_write_it(home: Path, name: str) -> None:
    with pytest.raises(ModelError, match=r"write hf:owner/repo"):
        find_model(name)


def test_ollamas_models_have_ollamas_names(home: Path) -> None:
    blob = put_in_ollama(home, "qwen3", "4b")
    assert find_model("qwen3:4b") == blob
    put(home / ".ollama/models/manifests/registry.ollama.ai/library/broken/1b", b"{not json")
    assert [model.origin for model in local_models()] == [Origin.OLLAMA]


def test_every_folder_is_seen_and_a_file_in_two_of_them_once(home: Path) -> None:
    first = put(home / "own/a.gguf")
    os.link(first, home / "own/same file.gguf")
    put(home / ".lmstudio/models/o/r/b.gguf")
    put(home / ".cache/llama.cpp/c.gguf")
    put_in_hub_cache(home, "o/r", "d.gguf")
    put_in_ollama(home, "e", "1b")
    assert [model.name for model in local_models()] == ["a", "d", "b", "c", "e:1b"]
    assert [model.is_ours for model in local_models()] == [True, False, False, False, False]


def test_what_is_no_model_of_its_own_is_not_listed(home: Path) -> None:
    put(home / "own/mmproj-F16.gguf")
    put(home / "own/x.imatrix.gguf")
    put(home / "own/x-Q4_0.gguf.0123.part")
    put(home / "own/half-00001-of-00002.gguf")
    (home / "own/dangling.gguf").symlink_to(home / "gone")
    assert local_models() == ()


def test_two_files_of_one_name_have_to_be_told_apart(home: Path) -> None:
    put(home / "own/one/x.gguf")
    put(home / "own/two/X.GGUF")
    with pytest.raises(ModelError, match="give the path that you mean"):
        find_model("x")


def test_an_unknown_name_is_refused_with_the_nearest_one(home: Path) -> None:
    with pytest.raises(ModelError, match=r"'qwen3-4bb' is no model here.*did you mean 'qwen3-4b'"):
        find_model("qwen3-4bb")


@pytest.mark.parametrize("name", ["no/such.gguf", "such.gguf"])
def test_a_path_that_leads_nowhere_says_so(home: Path, name: str) -> None:
    with pytest.raises(ModelError, match="does not exist"):
        find_model(name)


class TestSets:
    """Models in several files, case e08."""

    @pytest.fixture
    def parts(self, home: Path) -> list[Path]:
        names = [f"big-{n:05d}-of-00003.gguf" for n in (1, 2, 3)]
        return [put(home / "set" / name) for name in names]

    @pytest.mark.parametrize("number", [0, 1, 2])
    def test_any_part_opens_the_first(self, parts: list[Path], number: int) -> None:
        assert find_model(str(parts[number])) == parts[0]

    def test_so_does_the_folder(self, parts: list[Path]) -> None:
        put(parts[0].with_name("mmproj-big.gguf"))
        assert find_model(str(parts[0].parent)) == parts[0]

    def test_a_missing_part_is_named(self, parts: list[Path]) -> None:
        parts[1].unlink()
        for name in (parts[0], parts[2], parts[0].parent):
            with pytest.raises(
                ModelError, match=r"one of 3 files .* big-00002-of-00003.gguf is not"
            ):
                find_model(str(name))

    def test_links_of_a_cache_keep_their_names(self, home: Path) -> None:
        names = [f"big-{n:05d}-of-00002.gguf" for n in (1, 2)]
        links = [put_in_hub_cache(home, "o/r", name) for name in names]
        assert find_model(str(links[1])) == links[0]
        assert find_model("hf:o/r") == links[0]
        assert [model.name for model in local_models()] == ["big"]


def test_a_folder_with_several_models_asks_which(home: Path) -> None:
    put(home / "own/a.gguf")
    put(home / "own/b.gguf")
    with pytest.raises(ModelError, match=r"a folder with a.gguf, b.gguf in it; name"):
        find_model(str(home / "own"))
    with pytest.raises(ModelError, match="a folder with no model in it"):
        find_model(str(home))
