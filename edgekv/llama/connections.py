"""Has the system end connections between machines when the other side vanishes without a word.

A machine that loses its power or its cable closes nothing, and llama.cpp waits for it for ever.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path

SECONDS_IDLE, SECONDS_BETWEEN, NUM_PROBES = 10, 5, 3
SECONDS_TO_NOTICE = SECONDS_IDLE + SECONDS_BETWEEN * NUM_PROBES

_DESCRIPTORS = Path("/proc/self/fd")


def notice_loss() -> None:
    """For every TCP socket that this process has now, and what a listening one accepts later.

    Where descriptors cannot be listed, nothing is done.
    """
    if not _DESCRIPTORS.is_dir():
        return
    for descriptor in filter(_is_socket, map(int, os.listdir(_DESCRIPTORS))):
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            if connection.family == socket.AF_INET:
                _set_options(connection)


def _is_socket(descriptor: int) -> bool:
    # The one that lists them all is gone by now.
    with contextlib.suppress(OSError):
        return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    return False


def _set_options(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, SECONDS_IDLE),
        (socket.TCP_KEEPINTVL, SECONDS_BETWEEN),
        (socket.TCP_KEEPCNT, NUM_PROBES),
        # What was sent and never acknowledged is given up as soon.
        (socket.TCP_USER_TIMEOUT, SECONDS_TO_NOTICE * 1000),
    ):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
