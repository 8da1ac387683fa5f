"""`edgekv plan --what-if` as people run it: for machines that are not here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.llama.test_plan_command import assert_one_sentence, edgekv_plan, plan_json

pytestmark = pytest.mark.llama

GIB = 1024**3


def test_so_much_memory_is_the_whole_machine(starter_model: Path, tmp_path: Path) -> None:
    made = plan_json(starter_model, "--what-if", "1GiB")
    assert made["devices"][0]["total_bytes"] == GIB
    assert made["total_bytes"] <= made["budget_bytes"] == GIB - 128 * 1024**2
    assert made["limits"][0].startswith("This is not this machine: ")
    # What is printed here is a machine there, and the plan is the same.
    file = tmp_path / "there.json"
    file.write_text(json.dumps(made))
    again = plan_json(starter_model, "--what-if", file)
    assert again["choice"] == made["choice"]
    assert again["budget_bytes"] == made["budget_bytes"]


def test_a_graphics_device_that_is_not_here_is_estimated_and_that_is_said(
    starter_model: Path, tmp_path: Path
) -> None:
    host = {"id": "CPU", "kind": "cpu", "total_bytes": "8GiB", "free_bytes": "6GiB"}
    gpu = {"id": "CUDA0", "kind": "cuda", "total_bytes": "8GiB", "free_bytes": "7GiB"}
    file = tmp_path / "box.json"
    file.write_text(json.dumps({"cores": 8, "devices": [host, gpu]}))
    run = edgekv_plan(starter_model, "--what-if", file)
    assert run.returncode == 0
    first, *rest = run.stdout.splitlines()
    assert first == f"This is not this machine: it is planned for the machine of {file}."
    assert any("31 layers on a graphics device" in line for line in rest)
    assert any(line.startswith("CUDA0") for line in rest)
    assert any("Drivers of another machine cannot be asked." in line for line in rest)


def test_too_little_there_is_refused_with_both_numbers(starter_model: Path) -> None:
    assert_one_sentence(edgekv_plan(starter_model, "--what-if", "128MiB"), 1)


def test_what_is_no_machine_is_one_sentence(starter_model: Path) -> None:
    assert_one_sentence(edgekv_plan(starter_model, "--what-if", "8zib"), 2)
