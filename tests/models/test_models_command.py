"""`edgekv models` and what is below it, as people run them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgekv.cli.main import run
from edgekv.models.catalogue import catalogue
from edgekv.models.keeping import disk_use
from tests.models.conftest import put, put_in_hub_cache


@pytest.fixture
def shown(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shown:
    monkeypatch.setenv("EDGEKV_HOME", str(home / "kv"))
    return Shown(capsys)


class Shown:
    """What a command line printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.code = 0
        self.out = self.err = ""

    def run(self, *arguments: str) -> Shown:
        self.code = run(["models", *arguments])
        self.out, self.err = self._capsys.readouterr()
        return self


def test_the_page_shows_what_is_here_what_fits_and_what_does_not(
    home: Path, shown: Shown, starter_model: Path
) -> None:
    (home / "own" / starter_model.name).symlink_to(starter_model)
    page = shown.run().out
    assert shown.code == 0
    here, fit = page.index("On this disk:"), page.index("Fit this machine")
    assert here < page.index("smollm2-135m") < fit < page.index("smollm2-360m")
    assert "GB/s" in page
    assert "of memory are available" in page


def test_json_says_all_of_it(home: Path, shown: Shown, starter_model: Path) -> None:
    (home / "own" / starter_model.name).symlink_to(starter_model)
    report = json.loads(shown.run("--json").out)
    rows = {row["name"]: row for row in report["models"]}
    assert set(rows) == set(catalogue())
    starter = rows["smollm2-135m"]
    assert starter["path"] == str(home / "own" / starter_model.name)
    assert (starter["bytes"], starter["fits"], starter["folder_of"]) == (98_362_432, True, "edgekv")
    assert starter["context_length"] == 8192
    assert starter["most_tokens_per_second"] == pytest.approx(
        report["memory_bytes_per_second"] / 98_362_432, abs=0.06
    )
    assert rows["qwen3-4b"]["path"] is None


class TestDeleting:
    def test_a_model_goes_with_all_its_files_and_its_empty_folders(
        self, home: Path, shown: Shown
    ) -> None:
        parts = [put(home / "own/owner/repo" / f"big-{n:05d}-of-00002.gguf") for n in (1, 2)]
        kept = put(home / "own/small.gguf")
        assert shown.run("rm", "--yes", "big").code == 0
        assert f"{parts[0]} is deleted, 8 B are free again" in shown.err
        assert list((home / "own").rglob("*")) == [kept]

    def test_nothing_goes_without_a_yes(
        self, home: Path, shown: Shown, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = put(home / "own/small.gguf")
        monkeypatch.setattr("click.confirm", lambda *_, **__: False)
        assert shown.run("rm", "small").code == 0
        assert file.exists()

    def test_other_programs_models_are_left_alone(self, home: Path, shown: Shown) -> None:
        link = put_in_hub_cache(home, "o/r", "theirs.gguf")
        assert shown.run("rm", "--yes", "theirs").code == 1
        assert "belongs to another program (huggingface); delete it there" in shown.err
        assert link.exists()

    def test_a_file_elsewhere_is_not_ours_to_delete(self, home: Path, shown: Shown) -> None:
        file = put(home / "elsewhere/x.gguf")
        assert shown.run("rm", "--yes", str(file)).code == 1
        assert "in none of EdgeKV's folders" in shown.err
        assert file.exists()

    def test_partial_downloads_go_on_request(self, home: Path, shown: Shown) -> None:
        put(home / "own/o/r/x.gguf.0123456789abcdef.part", b"x" * 2048)
        assert shown.run("rm", "--partial").code == 0
        assert "2.0 KiB of partial downloads are deleted" in shown.err
        assert list((home / "own").rglob("*")) == []

    def test_something_has_to_be_named(self, home: Path, shown: Shown) -> None:
        assert shown.run("rm").code == 2


def test_disk_use_is_told_by_folder(home: Path, shown: Shown) -> None:
    put(home / "own/a.gguf", b"GGUF" * 512)
    put(home / "own/b.gguf.77.part", b"x" * 1024)
    put(home / ".lmstudio/models/o/r/c.gguf", b"GGUF")
    lines = shown.run("du").out.splitlines()
    assert len(lines) == 2
    assert "2.0 KiB    1 models" in lines[0]
    assert lines[0].endswith("(edgekv), 1.0 KiB of partial downloads")
    assert lines[1].endswith(f"{home}/.lmstudio/models (lmstudio)")
    assert [use.model_bytes for use in disk_use()] == [2048, 4]
    assert json.loads(shown.run("du", "--json").out)[0]["part_bytes"] == 1024


class TestImporting:
    @pytest.fixture(autouse=True)
    def _pulls_go_to_the_own_folder(self, home: Path) -> None:
        (home / "elsewhere").mkdir()

    def test_a_model_gets_a_place_and_the_original_stays(
        self, home: Path, shown: Shown, starter_model: Path
    ) -> None:
        file = put(home / "elsewhere/mine.gguf", starter_model.read_bytes()[:2_000_000])
        assert shown.run("import", str(file)).out == f"{home}/own/mine.gguf\n"
        assert (home / "own/mine.gguf").samefile(file)
        assert shown.run("import", str(file)).code == 1
        assert "is there already" in shown.err

    def test_across_disks_it_is_copied(
        self,
        home: Path,
        shown: Shown,
        starter_model: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def refuse(*_: object) -> None:
            raise OSError(18, "Invalid cross-device link")

        monkeypatch.setattr("os.link", refuse)
        content = starter_model.read_bytes()[:2_000_000]
        file = put(home / "elsewhere/mine.gguf", content)
        assert shown.run("import", str(file)).code == 0
        assert (home / "own/mine.gguf").read_bytes() == content
        assert not (home / "own/mine.gguf").samefile(file)
        assert list((home / "own").iterdir()) == [home / "own/mine.gguf"]

    @pytest.mark.parametrize("content", [b"", b"<html>", b"GGUF\x03\0\0\0", b"version https://git"])
    def test_what_is_no_model_is_not_taken(self, home: Path, shown: Shown, content: bytes) -> None:
        file = put(home / "elsewhere/no.gguf", content)
        assert shown.run("import", str(file)).code == 1
        assert f"{file} cannot be used" in shown.err
        assert list((home / "own").iterdir()) == []
