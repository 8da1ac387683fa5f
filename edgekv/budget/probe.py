"""Everything that is read of this machine, behind one seam: a test gives a recording instead."""

from __future__ import annotations

import re
from pathlib import Path

import psutil

from edgekv.budget.machine import Machine, read_available_beside_files, read_machine
from edgekv.budget.stall import read_stall

_OWN_PAGES = re.compile(r"^Rss(?:Anon|Shmem):\s+(\d+) kB$", re.MULTILINE)


class Probe:
    """The machine whose files lie below `root`."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def machine(self) -> Machine:
        """What a plan may count on."""
        return read_machine(self.root)

    def available_bytes(self) -> int:
        """What could be taken now if all page cache were dropped."""
        return read_available_beside_files(self.root).value

    def stall_percent(self) -> float:
        """Of the last ten seconds, how much was spent waiting for memory."""
        return read_stall(self.root)

    def taken_bytes(self, pid: int) -> int:
        """What a process and its children took of what was available before; 0 once it is gone."""
        folder = self.root / f"proc/{pid}"
        try:
            text = (folder / "status").read_text()
        except OSError:
            return _resident_bytes(pid)
        # Each thread lists what it started itself.
        lists = [file.read_text() for file in folder.glob("task/*/children")]
        children = [int(child) for one in lists for child in one.split()]
        own = sum(map(int, _OWN_PAGES.findall(text))) * 1024
        return own + sum(map(self.taken_bytes, children))


def _resident_bytes(pid: int) -> int:
    """Where there is no /proc, mapped files in use do not count as available, so all that is
    resident was taken.
    """
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


HERE = Probe()
