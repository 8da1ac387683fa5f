"""What systemd hears of a service: it is ready, it reads its settings again, it stops.

The protocol of sd_notify(3): lines in one datagram to the socket that NOTIFY_SOCKET names.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time

VARIABLE = "NOTIFY_SOCKET"


def tell_ready() -> None:
    _tell("READY=1")


def tell_reloading() -> None:
    """`tell_ready` has to follow."""
    _tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")


def tell_stopping() -> None:
    _tell("STOPPING=1")


def _tell(*lines: str) -> None:
    """Nothing where no supervisor listens; one that does not hear is no reason to end."""
    address = os.environ.get(VARIABLE, "")
    if not address.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        # @ stands for the NUL byte with which Linux's abstract names begin.
        out.connect(address.replace("@", "\0", 1) if address[0] == "@" else address)
        out.sendall("\n".join(lines).encode())
