"""How much everybody waits for memory: Linux's pressure stall information, where it is present."""

from __future__ import annotations

import re
from pathlib import Path

from edgekv.budget import cgroups

_FULL = re.compile(r"^full avg10=(\d+(?:\.\d+)?)", re.MULTILINE)


def read_stall(root: Path = Path("/")) -> float:
    """Percent of the last ten seconds in which nothing could go on for lack of memory, on the
    machine or in a control group of this process; 0 where the kernel does not tell.
    """
    files = [folder / "memory.pressure" for folder in cgroups.groups(root, "memory")]
    return max(map(_percent, (root / "proc/pressure/memory", *files)))


def _percent(path: Path) -> float:
    match = _FULL.search(cgroups.text_of(path))
    return float(match[1]) if match else 0.0
