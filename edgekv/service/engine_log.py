"""Where an engine's stderr goes, and what its end can be read from."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import IO

from edgekv.config.places import log_folder

LIMIT_BYTES = 4 * 1024 * 1024
"""A log longer than this is started anew with the next engine."""

TAIL_BYTES = 8192

_MEMORY_WORDS = re.compile(rb"out of memory|failed to allocate|unable to allocate|bad_alloc", re.I)
_VMSTAT = Path("/proc/vmstat")


class EngineLog:
    """One engine's part of the log file. A log that cannot be written is no reason to fail."""

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or log_folder()
        self._path = Path(os.devnull) if folder is None else folder / "engine.log"
        self._start = 0
        self._kills_before = _num_kills()

    def open(self) -> IO[bytes]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            is_full = self._path.exists() and self._path.stat().st_size > LIMIT_BYTES
            stream = self._path.open("wb" if is_full else "ab")
        except OSError:
            return Path(os.devnull).open("wb")
        self._start = stream.tell()
        return stream

    def tells_of_memory(self) -> bool:
        """Whether the system killed for memory since then, or the engine's last words are of it."""
        return _num_kills() > self._kills_before or bool(_MEMORY_WORDS.search(self._tail()))

    def _tail(self) -> bytes:
        try:
            with self._path.open("rb") as stream:
                end = stream.seek(0, os.SEEK_END)
                stream.seek(max(self._start, end - TAIL_BYTES))
                return stream.read()
        except OSError:
            return b""


def _num_kills() -> int:
    """Processes that Linux has killed for memory so far; 0 where nobody counts."""
    try:
        counters = _VMSTAT.read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in counters if line.startswith("oom_kill "))
