"""`edgekv plan` as people and scripts run it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgekv.core.plan import MemoryPlan

pytestmark = pytest.mark.llama


def edgekv_plan(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edgekv", "plan", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def plan_json(*arguments: str | Path) -> dict[str, Any]:
    run = edgekv_plan(*arguments, "--json")
    assert (run.returncode, run.stderr) == (0, "")
    decoded: dict[str, Any] = json.loads(run.stdout)
    return decoded


def test_json_has_exactly_the_fields_of_schema_1(starter_model: Path) -> None:
    decoded = plan_json(starter_model, "--host-cache", "0")
    assert list(decoded) == list(MemoryPlan.__struct_fields__)
    assert decoded["schema"] == 1
    assert decoded["total_bytes"] == sum(line["bytes"] for line in decoded["lines"])
    assert decoded["model"]["kv_bytes_per_cell"]["f16"] == 23_040
    assert {line["label"] for line in decoded["lines"]} == {
        "weights",
        "kv",
        "compute",
        "output",
        "embedding",
        "runtime",
    }


def test_room_to_embed_is_a_line_unless_it_is_not_wanted(starter_model: Path) -> None:
    with_it, without = plan_json(starter_model), plan_json(starter_model, "--no-embeddings")
    assert with_it["choice"]["embedding_cells"] == 2048
    (line,) = [line for line in with_it["lines"] if line["label"] == "embedding"]
    cells, logits, vectors = 2048 * 23_040, 16 * 49_152 * 4, 16 * 576 * 4
    assert cells + 2 * logits + vectors <= line["bytes"] <= 1.01 * (cells + 2 * logits + vectors)
    assert without["choice"]["embedding_cells"] == 0
    assert "embedding" not in {line["label"] for line in without["lines"]}


def test_cells_of_a_window_model_follow_its_own_widths(gemma_model: Path) -> None:
    assert plan_json(gemma_model)["model"]["kv_bytes_per_cell"]["f16"] == 18_432


@pytest.mark.parametrize(
    ("kv_type", "num_bytes"),
    [("f16", 188_743_680), ("q8_0", 100_270_080), ("q4_0", 53_084_160)],
)
def test_the_kv_line_is_exact(starter_model: Path, kv_type: str, num_bytes: int) -> None:
    wishes = ("--ctx", "8192", "--slots", "1", "--kv-type", kv_type)
    lines = plan_json(starter_model, *wishes)["lines"]
    assert [line["bytes"] for line in lines if line["label"] == "kv"] == [num_bytes]


def test_text_has_no_escapes_and_names_every_line(starter_model: Path) -> None:
    run = edgekv_plan(starter_model)
    assert (run.returncode, run.stderr) == (0, "")
    assert "\x1b" not in run.stdout
    for word in ("weights", "kv", "compute", "output", "runtime", "What bounds it"):
        assert word in run.stdout


def assert_one_sentence(run: subprocess.CompletedProcess[str], code: int) -> None:
    assert run.returncode == code
    assert run.stdout == ""
    assert run.stderr.startswith("edgekv: ")
    assert run.stderr.count("\n") == 1


def test_what_does_not_fit_is_one_sentence(starter_model: Path) -> None:
    run = edgekv_plan(starter_model, "--memory", "300MiB", "--ctx", "8192", "--kv-type", "f16")
    assert_one_sentence(run, 1)
    assert "--ctx" in run.stderr.split(";")[1]


def test_a_file_that_is_no_model_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(60))
    assert_one_sentence(edgekv_plan(tmp_path / "bad.gguf"), 1)


def test_wrong_usage_is_one_sentence(starter_model: Path) -> None:
    assert_one_sentence(edgekv_plan(starter_model, "--threads", "0"), 2)
