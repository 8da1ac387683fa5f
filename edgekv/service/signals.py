"""Signals, heard on an asyncio loop while something runs."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterable, Iterator
from types import FrameType

TO_STOP = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def hearing(
    numbers: Iterable[signal.Signals], hear: Callable[[signal.Signals], None]
) -> Iterator[None]:
    """Call `hear` on the running loop for each that comes; afterwards they do what they did."""
    loop = asyncio.get_running_loop()

    def handler(number: int, _: FrameType | None) -> None:
        loop.call_soon_threadsafe(hear, signal.Signals(number))

    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
