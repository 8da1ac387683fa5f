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
from edgekv.engine.process import EngineProcess, Inbox
from edgekv.service.own_command import own_command


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


def _take_stdout() -> BinaryIO:
    """A private, unbuffered handle on stdout; everybody else's stdout is stderr from now on."""
    private = os.dup(1)
    os.dup2(2, 1)
    if sys.platform == "win32":
        import msvcrt

        for descriptor in (0, private):
            msvcrt.setmode(descriptor, os.O_BINARY)
    return os.fdopen(private, "wb", buffering=0)


def _read(stdin: BinaryIO, inbox: Inbox) -> None:
    while True:
        prefix = stdin.read(LENGTH_BYTES)
        if len(prefix) < LENGTH_BYTES:
            # The parent is gone. A C call may hold the main thread for seconds; nothing here
            # needs an orderly end.
            os._exit(0)
        inbox.put(decode_command(stdin.read(frame_length(prefix))))
