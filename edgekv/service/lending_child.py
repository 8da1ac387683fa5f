"""The process that lends. Its parent, `service/lending.py`, outlives whatever ggml does to it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping


def main(host: str, port: int, num_threads: int, limits: Mapping[str, int]) -> None:
    """Lend until stdin ends; never returns. The exit code is 1 if nothing can be listened on.

    Raises `Unavailable` where this llama.cpp cannot lend.
    """
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    from edgekv.llama.lending import lend

    lend(host, port, limits, num_threads)
    os._exit(1)


def _leave_with_parent() -> None:
    while sys.stdin.buffer.read(1024):
        pass
    # The main thread is in a C call that never ends.
    os._exit(0)
