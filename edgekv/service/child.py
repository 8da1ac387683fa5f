"""The engine process: the parent's pipes on one side, llama.cpp on the other.

    stdin  ──frames──▶ reader thread ──▶ inbox ──▶ EngineProcess ──frames──▶ stdout

ggml prints to descriptor 1, so frames go to a private copy of it and descriptor 1 becomes stderr.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from queue import SimpleQueue
from typing import BinaryIO

import psutil

from edgekv.core.frames import (
    LENGTH_BYTES,
    EngineFrame,
    decode_command,
    encode,
    frame_length,
)
from edgekv.engine.process import EngineProcess, Inbox, Leave
from edgekv.service.own_command import own_command

SECONDS_TO_LEAVE = 4.0
"""For copies of idle conversations on their way to disk, once the parent is gone. Less than the
parent waits before it kills."""


def main() -> None:
    """Serve frames until stdin ends; never returns."""
    frames_out = _take_stdout()
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s %(message)s"
    )
    inbox: Inbox = SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, inbox), daemon=True).start()

    from edgekv.llama.backend import LlamaLibrary

    def send(frame: EngineFrame) -> None:
        frames_out.write(encode(frame))

    process = psutil.Process()
    EngineProcess(
        LlamaLibrary(own_command("grammar")),
        inbox,
        send,
        resident_bytes=lambda: int(process.memory_info().rss),
    ).run()
    # The library's own way to end takes a while, and the memory goes back all the same.
    os._exit(0)


def _take_stdout() -> BinaryIO:
    """A private, unbuffered handle on stdout; everybody else's stdout is stderr from now on."""
    private = os.dup(1)
    os.dup2(2, 1)
    if sys.platform == "win32":
        import msvcrt

        for descriptor in (0, private):
            msvcrt.setmode(descriptor, os.O_BINARY)
    return os.fdopen(private, "wb", buffering=0)


def _leave_soon(inbox: Inbox) -> None:
    # A C call may hold the main thread for longer than that.
    last_resort = threading.Timer(SECONDS_TO_LEAVE, os._exit, (0,))
    last_resort.daemon = True
    last_resort.start()
    inbox.put(Leave())


def _read(stdin: BinaryIO, inbox: Inbox) -> None:
    while True:
        prefix = stdin.read(LENGTH_BYTES)
        if len(prefix) < LENGTH_BYTES:
            _leave_soon(inbox)
            return
        inbox.put(decode_command(stdin.read(frame_length(prefix))))
