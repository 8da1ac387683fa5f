"""`edgekv advise` as people run it, on the real starter model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgekv.cli.main import run

pytestmark = pytest.mark.llama

ROWS = [
    {"timestamp": 0, "input_length": 600, "output_length": 20, "hash_ids": [0, 1]},
    {"timestamp": 500, "input_length": 700, "output_length": 20, "hash_ids": [0, 2]},
    {"timestamp": 900, "input_length": 30_000, "output_length": 20, "hash_ids": list(range(3, 65))},
]


def test_a_trace_is_judged_on_this_machine_and_what_is_left_out_is_said(
    starter_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    asked = ["advise", str(trace), str(starter_model), "--slots", "2", "--ctx", "1024"]
    assert run([*asked, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["requests"], report["too_long"]) == (2, 1)
    planned = report["advice"]["planned"]
    assert planned["hit_rate"] == pytest.approx(512 / 1300)
    assert planned["total_p95"] >= planned["first_token_p95"] > 0
    assert report["advice"]["wall"] in {"memory", "compute", "none"}


def test_what_is_no_trace_is_refused_before_a_model_is_loaded(
    starter_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["advise", str(starter_model), str(starter_model)]) == 1
    assert "nor Azure's CSV" in capsys.readouterr().err
