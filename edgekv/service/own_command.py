"""How EdgeKV starts itself as a child process."""

from __future__ import annotations

import sys


def own_command(name: str) -> list[str]:
    """The arguments that run `edgekv NAME`, from a frozen program too."""
    if getattr(sys, "frozen", False):
        return [sys.executable, name]
    # -P keeps a folder named edgekv where the user happens to be from being imported.
    return [sys.executable, "-P", "-m", "edgekv", name]
