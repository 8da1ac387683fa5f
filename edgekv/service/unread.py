"""Reads a stream to its end whatever its reader does, and gives up on a reader that lags too far.

An answer is computed beside others and may hold up those that wait for it to end
(`service/recovery.py`), so its events are taken when they come, not when somebody reads them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from edgekv.errors import SlowReader

MOST_UNREAD = 1024
"""Events, about a token each: 256 KiB, or 5 MiB with 20 likelihoods for each token."""

T = TypeVar("T")


async def read_ahead(events: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """The same events. Once more than `MOST_UNREAD` are unread, `events` is closed, and after those
    that are there `SlowReader` is raised.
    """
    unread: asyncio.Queue[T | None] = asyncio.Queue()

    async def take() -> None:
        try:
            async with aclosing(events):
                async for event in events:
                    if unread.qsize() >= MOST_UNREAD:
                        raise SlowReader(MOST_UNREAD)
                    unread.put_nowait(event)
        finally:
            unread.put_nowait(None)

    taking = asyncio.ensure_future(take())
    try:
        while (event := await unread.get()) is not None:
            yield event
        await taking
    finally:
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
