"""Readers that lag: the stream goes on without them, and not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from edgekv.errors import EngineDied, SlowReader
from edgekv.service import unread
from edgekv.service.recovery import Recovery
from edgekv.service.unread import read_ahead
from tests.unit.test_recovery import WHOLE, Engine, OthersRun, answer, submit


class Numbers:
    """0, 1, 2, … and whether somebody closed them."""

    def __init__(self, end: int) -> None:
        self.end, self.num_told, self.is_closed = end, 0, False

    async def tell(self) -> AsyncGenerator[int]:
        try:
            for number in range(self.end):
                self.num_told += 1
                yield number
        finally:
            self.is_closed = True


async def read_into(read: list[int], events: AsyncGenerator[int]) -> None:
    async for event in events:
        read.append(event)


async def others_run() -> None:
    for _ in range(100):
        await OthersRun()


def test_events_are_taken_whether_they_are_read_or_not() -> None:
    async def run() -> list[int]:
        numbers = Numbers(50)
        events = read_ahead(numbers.tell())
        first = await anext(events)
        await others_run()
        assert numbers.is_closed
        return [first, *[event async for event in events]]

    assert asyncio.run(run()) == list(range(50))


def test_a_stream_that_nobody_reads_is_ended_and_says_so_behind_what_was_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unread, "MOST_UNREAD", 5)

    async def run() -> list[int]:
        numbers, read = Numbers(10**9), []
        events = read_ahead(numbers.tell())
        read.append(await anext(events))
        await others_run()
        assert numbers.is_closed
        assert numbers.num_told <= 7
        with pytest.raises(SlowReader, match="5 pieces of it were not read"):
            await read_into(read, events)
        return read

    read = asyncio.run(run())
    assert read == list(range(len(read)))
    assert len(read) >= 5


def test_an_error_comes_behind_the_events_before_it() -> None:
    async def breaks() -> AsyncGenerator[int]:
        yield 1
        raise EngineDied("gone")

    async def run() -> None:
        events = read_ahead(breaks())
        assert await anext(events) == 1
        with pytest.raises(EngineDied, match="gone"):
            await anext(events)

    asyncio.run(run())


def test_a_reader_that_leaves_ends_the_stream() -> None:
    async def run() -> bool:
        numbers = Numbers(10**9)
        events = read_ahead(numbers.tell())
        await anext(events)
        await events.aclose()
        return numbers.is_closed

    assert asyncio.run(run())


def test_one_who_reads_nothing_while_the_engine_recovers_holds_up_nobody() -> None:
    """After the second death all run one at a time to their end, the first one first."""

    async def run() -> str | EngineDied:
        engine, recovery = Engine(), Recovery()
        idle = read_ahead(recovery.stream(submit("idle"), engine.attempt))
        for _ in range(2):
            await anext(idle)
            engine.kill()
        await anext(idle)
        assert recovery._line.locked()
        other = asyncio.create_task(answer(recovery, engine, "other"))
        await others_run()
        assert other.done()
        await idle.aclose()
        return await other

    assert asyncio.run(run()) == WHOLE
