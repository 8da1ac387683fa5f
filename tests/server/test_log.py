"""The server's log goes on whatever its reader does."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import socket
from collections.abc import Iterator

import pytest

from edgekv.server import log
from edgekv.server.log import PatientHandler


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("x", logging.WARNING, "", 0, text, None, None)


@pytest.fixture
def pipe() -> Iterator[tuple[int, io.TextIOWrapper]]:
    """Its reading end, and a stream that writes to it."""
    reader, writer = os.pipe()
    stream = os.fdopen(writer, "w", encoding="utf-8")
    yield reader, stream
    os.close(reader)


def test_lines_are_written_in_their_order_before_the_end() -> None:
    stream = io.StringIO()
    handler = PatientHandler(stream)
    for number in range(100):
        handler.emit(record(f"line {number}"))
    handler.close()
    assert stream.getvalue().splitlines() == [f"line {number}" for number in range(100)]


def test_nobody_waits_for_a_reader_who_has_stopped_and_what_is_lost_is_counted(
    pipe: tuple[int, io.TextIOWrapper], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MOST_LINES", 50)
    reader, stream = pipe
    handler = PatientHandler(stream)
    # A pipe holds 64 KiB, so the thread that writes is stuck from about the sixth line on.
    for _ in range(200):
        handler.emit(record("x" * 10_000))
    read = b""
    while b"were lost" not in read:
        read += os.read(reader, 1 << 20)
    written = read.count(b"x" * 10_000 + b"\n")
    lost = int(read.rsplit(b"\n", 2)[-2].split(b" ", 1)[0])
    assert written + lost == 200
    assert lost > 0
    handler.close()
    stream.close()


def test_a_broken_pipe_ends_the_writing_and_nothing_else() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w", encoding="utf-8")
    handler = PatientHandler(stream)
    for _ in range(10):
        handler.emit(record("anybody there?"))
    handler.close()
    with pytest.raises(BrokenPipeError):
        stream.close()


async def write_after_departure() -> None:
    """More at once than asyncio takes for an oversight."""
    here, there = socket.socketpair()
    there.close()
    _, writer = await asyncio.open_connection(sock=here)
    for _ in range(20):
        writer.write(b"x")
    writer.close()


def test_clients_that_leave_in_the_middle_of_an_answer_fill_no_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("asyncio"), "filters", [])
    asyncio.run(write_after_departure())
    assert caplog.messages, "otherwise there is nothing to leave out"
    caplog.clear()
    log.leave_out_departures()
    asyncio.run(write_after_departure())
    assert caplog.messages == []
