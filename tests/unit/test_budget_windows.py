"""Which machines are known for ones whose graphics memory Windows manages."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgekv.budget.machine import read_machine
from tests.unit.test_budget_machine import Recording

WSL = "Linux version 5.15.167.4-microsoft-standard-WSL2 (root@build) #1 SMP"


@pytest.mark.parametrize(
    ("version", "device", "system", "spills"),
    [
        (WSL, "dev/dxg", "linux", True),
        (WSL, "dev/null", "linux", False),
        ("Linux version 6.1.0-28-amd64", "dev/dxg", "linux", False),
        ("", "dev/null", "win32", True),
        ("", "dev/null", "darwin", False),
    ],
)
def test_windows_and_what_it_runs_spill_graphics_memory(
    tmp_path: Path, version: str, device: str, system: str, spills: bool
) -> None:
    recording = Recording(tmp_path)
    recording.add("proc/version", version)
    recording.add(device, "")
    assert read_machine(recording.root, range(4), {}, system).spills is spills
