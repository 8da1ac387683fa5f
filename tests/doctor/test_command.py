"""`edgekv doctor` as a user runs it, on this machine and with the starter model."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from edgekv.service.own_command import own_command

pytestmark = pytest.mark.llama


def doctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*own_command("doctor"), *arguments], capture_output=True, text=True, check=False
    )


def test_this_machine_runs_the_starter_model(starter_model: Path) -> None:
    done = doctor("--json", str(starter_model))
    report = json.loads(done.stdout)
    assert (report["schema"], done.returncode) == (1, 0), report
    topics = [finding["topic"] for finding in report["findings"]]
    wanted = ["memory", "threads", "settings", "folders", "port", "library", "device", "self-test"]
    assert [topic for topic in dict.fromkeys(topics) if topic in wanted] == wanted
    assert "suspended and resumed" in report["findings"][-1]["text"]


def test_a_model_that_does_not_run_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF and nothing more")
    done = doctor(str(tmp_path / "broken.gguf"))
    assert done.returncode == 1
    assert "FAULT: broken.gguf does not run" in done.stdout
    assert done.stderr == ""
