"""`edgekv bench` as people run it, on the real starter model."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgekv import __version__
from edgekv.cli.main import run
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.llama


def test_a_short_bench_measures_everything_and_leaves_no_copies_behind(
    starter_model: Path, tmp_path: Path
) -> None:
    short = ("--slots", "2", "--seconds", "1", "--json")
    ran = subprocess.run(
        [sys.executable, "-m", "edgekv", "bench", str(starter_model), *short],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"EDGEKV_HOME": str(tmp_path)},
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == "", "no progress bar without a terminal"
    measured = json.loads(ran.stdout)
    assert measured["versions"]["edgekv"] == __version__
    assert measured["reading"]["tokens_per_second"] > 0
    again = measured["reuse"]
    assert again["reused_tokens"] == measured["reading"]["tokens"] < again["tokens"]
    assert [row["at_once"] for row in measured["writing"]] == [1, 2]
    most = measured["machine"]["memory_bytes_per_second"] / measured["model"]["active_bytes"]
    assert [row["ceiling"] for row in measured["writing"]] == pytest.approx(
        [most, 2 * most], rel=1e-6
    )
    # The matrix of words is the output as well here, so all of the weights are active.
    size = starter_model.stat().st_size
    assert 0.97 * size < measured["model"]["active_bytes"] < size
    assert not list(tmp_path.rglob("conversations"))
    assert [(field, *inner(measured, field)) for field in measured] == documented()


def inner(measured: dict[str, Any], field: str) -> list[str]:
    """The names inside a field; those of `choice` are the plan's."""
    value = measured[field][0] if field == "writing" else measured[field]
    return list(value) if isinstance(value, dict) and field != "choice" else []


def documented() -> list[tuple[str, ...]]:
    page = (REPOSITORY / "docs/bench.md").read_text(encoding="utf-8")
    table = page[page.index("| field |") :].splitlines()[2:]
    return [tuple(re.findall(r"`(\w+)`", row)) for row in table]


def test_where_nothing_fits_one_sentence_says_what_it_needs(
    starter_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", str(starter_model), "--memory", "60MiB"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("edgekv: ")
    assert told.err.count("\n") == 1


def test_a_time_that_is_none_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "--seconds", "0"]) == 2
    assert "--seconds" in capsys.readouterr().err


def test_a_context_too_short_to_measure_is_refused_and_the_shortest_is_measured(
    starter_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = ("bench", str(starter_model), "--seconds", "1", "--slots", "1", "--ctx")
    assert run([*short, "31"]) == 1
    assert "take --ctx 32 or more" in capsys.readouterr().err
    assert run([*short, "32"]) == 0
    assert "only one slot was measured" in capsys.readouterr().out
