"""`edgekv plan` of a model that is still at its hub: its header is all that is transferred."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgekv.cli.main import run
from tests.models.fake_hub import FakeHub
from tests.models.gguf_files import split_gguf

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
PLAN = ["--ctx", "4096", "--slots", "2", "--host-cache", "0", "--no-embeddings", "--json"]


@pytest.fixture
def folder(hub: FakeHub, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    return home / "own"


@pytest.fixture
def starter_hub(hub: FakeHub, folder: Path, starter_model: Path) -> FakeHub:
    hub.files = {FILE: starter_model.read_bytes()}
    return hub


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["plan", *arguments, *PLAN]) == 0
    plan: dict[str, Any] = json.loads(capsys.readouterr().out)
    return plan


def sizes(plan: dict[str, Any]) -> dict[str, int]:
    return {line["label"]: line["bytes"] for line in plan["lines"]}


def test_a_plan_from_afar_is_the_plan_of_the_file_but_for_its_estimates(
    starter_hub: FakeHub, starter_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    afar = planned(capsys, "hf:ok/tiny:Q4_1")
    assert starter_hub.sent_bytes < 4_000_000
    here = planned(capsys, str(starter_model))
    assert afar["choice"] == here["choice"]
    for label in ("weights", "kv", "output"):
        assert sizes(afar)[label] == sizes(here)[label]
    assert sizes(afar)["compute"] == pytest.approx(sizes(here)["compute"], rel=0.15)
    assert afar["model"]["file_bytes"] == 98_362_432
    assert "of 93.8 MiB were read at 127.0.0.1" in afar["limits"][0]
    assert "'edgekv pull' gets the rest" in afar["limits"][0]


def test_a_catalogue_name_that_is_not_here_is_planned_from_afar(
    starter_hub: FakeHub, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = planned(capsys, "smollm2-135m")
    assert plan["model"]["architecture"] == "llama"
    assert list(folder.iterdir()) == []
    assert all("QuantFactory/SmolLM2" in request.path for request in starter_hub.requests)


def test_a_set_is_planned_with_all_its_files(
    hub: FakeHub,
    folder: Path,
    starter_model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    parts = split_gguf(starter_model, tmp_path / "set", "big-Q4_1", 3)
    hub.files = {part.name: part.read_bytes() for part in parts}
    for mapped in ("--mmap", "--no-mmap"):
        plan = planned(capsys, "hf:ok/tiny", mapped)
        assert sizes(plan)["weights"] == sum(len(content) for content in hub.files.values())


def test_what_is_here_is_planned_here(
    starter_hub: FakeHub, folder: Path, starter_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / FILE).symlink_to(starter_model)
    planned(capsys, "starter")
    assert starter_hub.requests == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hf:norange/tiny", "sends no parts of files"),
        ("hf:missing/tiny", "has no repository or file missing/tiny"),
        ("hf:ok/tiny:Q2_K", "has no Q2_K; it has Q4_1"),
        ("hf:login/tiny", "sends no parts of files"),
    ],
)
def test_what_cannot_be_planned_from_afar_is_one_sentence(
    starter_hub: FakeHub, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    assert run(["plan", name]) == 1
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert words in err


def test_a_plan_that_does_not_fit_from_afar_says_so(
    starter_hub: FakeHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "hf:ok/tiny", "--memory", "64MiB"]) == 1
    assert "64.0 MiB" in capsys.readouterr().err


def test_serving_a_model_that_is_not_here_says_how_to_get_it(
    starter_hub: FakeHub, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("serve", "chat"):
        assert run([command, "hf:ok/tiny:Q4_1"]) == 1
        assert "get it with 'edgekv pull hf:ok/tiny:Q4_1'" in capsys.readouterr().err
    assert starter_hub.requests == []
