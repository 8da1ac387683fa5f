"""`edgekv validate` as people run it, on the real starter model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgekv.cli.main import run

pytestmark = pytest.mark.llama


def edgekv(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edgekv", *arguments]
    environment = os.environ | {"EDGEKV_HOME": str(home)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_two_bits_are_refused_eight_are_trusted_and_the_plan_knows(
    starter_model: Path, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    tested = edgekv(
        tmp_path, "validate", str(starter_model), "--quick", "--longest", "832",
        *("--kv-type", "q2_0", "--also", "q8_0", "--json", "--html", str(page)),
    )  # fmt: skip
    assert tested.returncode == 1, tested.stderr
    assert tested.stderr == "", "no progress bar without a terminal"
    two, eight = map(json.loads, tested.stdout.splitlines())
    assert two["objections"]
    assert eight["objections"] == []
    assert eight["quick"] is True
    assert "q2_0" in page.read_text(encoding="utf-8")

    planned = edgekv(tmp_path, "plan", str(starter_model), "--kv-type", "q2_0")
    assert "q2_0 is refused by the gate on this model" in planned.stdout
    planned = edgekv(tmp_path, "plan", str(starter_model), "--kv-type", "q8_0")
    assert "q8_0 passed the quick check on this model" in planned.stdout


def test_f16_is_not_compared_with_itself(
    starter_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["validate", str(starter_model), "--kv-type", "f16"]) == 1
    assert "name another type" in capsys.readouterr().err


def test_an_adapter_is_not_judged_along(
    starter_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter = tmp_path / "adapter.gguf"
    adapter.touch()
    assert run(["validate", str(starter_model), "--lora", str(adapter)]) == 2
    assert "leave out --lora" in capsys.readouterr().err
