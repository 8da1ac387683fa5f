"""Where a bundled EdgeKV begins: the same as `python -m edgekv`."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

from edgekv.cli.main import main

PR_SET_PDEATHSIG = 1


def end_with_the_unpacker() -> None:
    """In the one-file bundle: stop when the process that unpacked it is killed.

    That one, with our very command line, is what people and supervisors see; without this it would
    leave a server behind that nobody knows of.
    """
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):  # other people's processes may be hidden
        own, parents = (Path(f"/proc/{pid}/cmdline").read_bytes() for pid in ("self", os.getppid()))
        if own == parents:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


end_with_the_unpacker()
main()
