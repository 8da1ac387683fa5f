"""Everything that is asked of this machine, behind one seam: a test gives a recorded one."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgekv.budget.machine import Machine, is_wsl, read_machine

SECONDS_TO_ANSWER = 5.0
"""For a program that only prints a setting."""


def ask(command: Sequence[str]) -> str | None:
    """What a program of the system prints; None if it is not there or fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=SECONDS_TO_ANSWER, check=True, text=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.strip()


@dataclass(frozen=True, slots=True)
class Host:
    """The machine whose files lie below `root`."""

    root: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    system: str = sys.platform
    """As `sys.platform`: linux, darwin, win32."""
    architecture: str = field(default_factory=platform.machine)
    """As `uname -m`: x86_64, aarch64, arm64."""
    affinity: frozenset[int] | None = None
    """Processors this process may run on; None asks the system."""
    is_bundle: bool = getattr(sys, "frozen", False)
    """Whether this EdgeKV is one that brings its own Python."""
    ask: Callable[[Sequence[str]], str | None] = ask

    def text(self, path: str) -> str:
        """A file's text; "" where it cannot be read."""
        try:
            return (self.root / path).read_bytes().decode("utf-8", "replace").strip("\0\n ")
        except OSError:
            return ""

    def paths(self, pattern: str) -> list[str]:
        """Files below `root` that match, for `text`."""
        return [str(found.relative_to(self.root)) for found in sorted(self.root.glob(pattern))]

    def machine(self) -> Machine:
        return read_machine(self.root, self.affinity, self.environment, self.system)

    @property
    def is_jetson(self) -> bool:
        name = self.text("proc/device-tree/model")
        return "Jetson" in name or bool(self.text("etc/nv_tegra_release"))

    @property
    def is_wsl(self) -> bool:
        return is_wsl(self.root)
