"""How the path of a file may go on while it is typed."""

from __future__ import annotations

import os
from pathlib import Path

MOST = 100
"""More are not looked through by anybody; a letter more leaves fewer."""


def paths(begun: str) -> tuple[str, ...]:
    """Whole paths, spelled as `begun` is. Folders end with a slash, to be gone into.

    Hidden names come once their dot is typed; names that no terminal can show never do.
    """
    head, slash, tail = begun.rpartition("/")
    try:
        folder = Path(head + slash).expanduser()
        with os.scandir(folder) as entries:
            names = [_name(entry) for entry in entries if _goes_on(tail, entry.name)]
    except (OSError, RuntimeError, ValueError):  # not there, nobody's home, no path at all
        return ()
    return tuple(f"{head}{slash}{name}" for name in sorted(names)[:MOST])


def _goes_on(tail: str, name: str) -> bool:
    is_meant = tail.startswith(".") or not name.startswith(".")
    return is_meant and name.isprintable() and name.casefold().startswith(tail.casefold())


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name + "/" if entry.is_dir() else entry.name
