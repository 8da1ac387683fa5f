"""The engine process: the parent's pipes on one side, llama.cpp on the other.

    stdin  ──frames──▶ reader thread ──▶ inbox ──▶ EngineProcess ──frames──▶ stdout

ggml prints to descriptor 1, so frames go to a private copy of it and descriptor 1 becomes stderr.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, BinaryIO, TypeAlias

import psutil

from edgekv.core.frames import (
    LENGTH_BYTES,
    EngineFrame,
    decode_command,
    encode,
    frame_length,
)
from edgekv.engine.comparing import ComparisonProcess
from edgekv.engine.process import EngineProcess, Leave
from edgekv.service.own_command import own_command

AtEnd: TypeAlias = Callable[[SimpleQueue[Any]], None]
"""What to do once the parent is gone, given the inbox."""

SECONDS_TO_LEAVE = 4.0
"""For copies of idle conversations on their way to disk, once the parent is gone. Less than the
parent waits before it kills."""


def main(workers: Sequence[str] = ()) -> None:
    """Answer for one model until stdin ends; never returns. `workers` hold some of its layers."""
    inbox, send = _open_pipes(_leave_soon)
    from edgekv.llama.backend import LlamaLibrary

    process = psutil.Process()
    EngineProcess(
        LlamaLibrary(own_command("grammar"), workers),
        inbox,
        send,
        resident_bytes=lambda: int(process.memory_info().rss),
    ).run()
    # The library's own way to end takes a while, and the memory goes back all the same.
    os._exit(0)


def compare(workers: Sequence[str] = ()) -> None:
    """Compare ways to keep keys and values until stdin ends; never returns. `workers` hold some
    of the layers.
    """
    inbox, send = _open_pipes(_leave_now)
    from edgekv.llama.comparison import LlamaComparisonLibrary

    ComparisonProcess(LlamaComparisonLibrary(workers), inbox, send).run()


def _open_pipes(at_end: AtEnd) -> tuple[SimpleQueue[Any], Callable[[EngineFrame], None]]:
    """What the parent sends, and how to answer it."""
    frames_out = _take_stdout()
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s %(message)s"
    )
    inbox: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, inbox, at_end), daemon=True).start()

    def send(frame: EngineFrame) -> None:
        frames_out.write(encode(frame))

    return inbox, send


def _take_stdout() -> BinaryIO:
    """A private, unbuffered handle on stdout; everybody else's stdout is stderr from now on."""
    private = os.dup(1)
    os.dup2(2, 1)
    if sys.platform == "win32":
        import msvcrt

        for descriptor in (0, private):
            msvcrt.setmode(descriptor, os.O_BINARY)
    return os.fdopen(private, "wb", buffering=0)


def _leave_soon(inbox: SimpleQueue[Any]) -> None:
    # A C call may hold the main thread for longer than that.
    last_resort = threading.Timer(SECONDS_TO_LEAVE, os._exit, (0,))
    last_resort.daemon = True
    last_resort.start()
    inbox.put(Leave())


def _leave_now(_: SimpleQueue[Any]) -> None:
    os._exit(0)


def _read(stdin: BinaryIO, inbox: SimpleQueue[Any], at_end: AtEnd) -> None:
    while True:
        prefix = stdin.read(LENGTH_BYTES)
        if len(prefix) < LENGTH_BYTES:
            at_end(inbox)
            return
        inbox.put(decode_command(stdin.read(frame_length(prefix))))
