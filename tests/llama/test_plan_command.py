"""`edgekv plan` as people and scripts run it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgekv.core.plan import MemoryPlan
from edgekv.models.gguf_walk import walk_file
from tests.tiny_models import TinyModel, write_header

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


def test_a_header_that_cannot_be_opened_is_planned_and_says_what_is_estimated(
    tmp_path: Path,
) -> None:
    shape = {"attention.head_count_kv": 8, "attention.key_length": 64, "attention.value_length": 64}
    keys = {"block_count": 24, "context_length": 131_072, "attention.sliding_window": 128}
    path = write_header(tmp_path / "bare.gguf", TinyModel("gpt-oss", keys | shape, {}))
    wishes = ("--ctx", "131072", "--slots", "1", "--kv-type", "f16", "--memory", "5GiB")
    plan = plan_json(path, *wishes)
    lines = {line["label"]: line for line in plan["lines"]}
    assert not plan["choice"]["swa_full"]
    # 12 layers that see everything, 12 that see 128 tokens; for the slot and the scratch id.
    assert lines["kv"]["bytes"] == 12 * (131_072 + 768) * 2 * 8 * 64 * 2 == 3090 * 1024**2
    assert lines["kv"]["exact"]
    assert not lines["compute"]["exact"]
    assert lines["compute"]["how"].startswith("estimated: ")
    assert "header alone" in plan["limits"][0]
    assert "no tensors" in plan["limits"][0]


def test_the_header_of_a_model_is_planned_as_if_the_file_were_whole(
    starter_model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "header.gguf"
    header = walk_file(starter_model)
    with starter_model.open("rb") as whole:
        path.write_bytes(whole.read(header.num_bytes))
    cut, real = plan_json(path, "--host-cache", "0"), plan_json(starter_model, "--host-cache", "0")
    assert cut["choice"] == real["choice"]
    planned, truth = ({x["label"]: x for x in plan["lines"]} for plan in (cut, real))
    exact = {label for label, line in planned.items() if line["exact"]}
    assert exact == {"weights", "kv", "output"}
    assert [planned[label] for label in exact] == [truth[label] for label in exact]
    for label in ("compute", "embedding"):
        assert planned[label]["bytes"] == pytest.approx(truth[label]["bytes"], rel=0.1)
    assert "cut short" in cut["limits"][0]


def test_a_part_of_a_model_is_refused(starter_model: Path, tmp_path: Path) -> None:
    with starter_model.open("rb") as whole:
        (tmp_path / "part.gguf").write_bytes(whole.read(4_000_000))
    assert_one_sentence(edgekv_plan(tmp_path / "part.gguf"), 1)


def test_a_recurrent_model_is_planned_without_cells(tmp_path: Path) -> None:
    keys = {"block_count": 12, "embedding_length": 768, "wkv.head_size": 64}
    model = TinyModel("rwkv7", {**keys, "context_length": 1_048_576}, {})
    plan = plan_json(write_header(tmp_path / "state.gguf", model), "--slots", "1")
    (state,) = [line for line in plan["lines"] if line["label"] == "recurrent"]
    assert state["bytes"] == 2 * 2_433_024
    assert plan["model"]["kv_bytes_per_cell"]["f16"] == 0
    assert plan["choice"]["context_length"] == 1_048_576


def test_a_file_that_is_no_model_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(60))
    assert_one_sentence(edgekv_plan(tmp_path / "bad.gguf"), 1)


def test_wrong_usage_is_one_sentence(starter_model: Path) -> None:
    assert_one_sentence(edgekv_plan(starter_model, "--threads", "0"), 2)
