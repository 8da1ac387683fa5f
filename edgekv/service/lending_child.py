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
    threading.Thread(target=_heed_parent, daemon=True).start()
    from edgekv.llama.lending import lend

    lend(host, port, limits, num_threads)
    os._exit(1)


def _heed_parent() -> None:
    """It says something once the child answers, and is silent until it ends."""
    from edgekv.llama.connections import notice_loss

    while sys.stdin.buffer.read(1):
        notice_loss()
    # The main thread is in a C call that never ends.
    os._exit(0)
