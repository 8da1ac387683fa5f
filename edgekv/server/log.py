"""The log on stderr, written by a thread: whoever reads it slowly holds up no answer."""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from typing import TextIO

MOST_LINES = 10_000
"""That wait to be written. More are not kept, and how many is said in their place."""
SECONDS_AT_END = 2.0
"""For lines that still wait when the program ends."""


def log_to_stderr() -> None:
    """One line an event: who asked for what path, and what went wrong; never what was said."""
    handler = PatientHandler(sys.stderr)
    handler.setFormatter(_OneLine("%(asctime)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    access = logging.getLogger("uvicorn.access")
    access.setLevel(logging.INFO)
    access.addFilter(_without_query)
    leave_out_departures()


def leave_out_departures() -> None:
    """A client that left is no news. asyncio tells of it where more was written to it at once."""
    logging.getLogger("asyncio").addFilter(_is_no_departure)


class PatientHandler(logging.Handler):
    """Never waits for the stream. Lines come in their order."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._lines: deque[str] = deque()
        self._num_lost = 0
        self._is_over = False
        self._there = threading.Condition()
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        with self._there:
            if len(self._lines) < MOST_LINES:
                self._lines.append(line)
            else:
                self._num_lost += 1
            self._there.notify()

    def close(self) -> None:
        """Wait a little for what is still to be written."""
        with self._there:
            self._is_over = True
            self._there.notify()
        self._thread.join(SECONDS_AT_END)
        super().close()

    def _write(self) -> None:
        while (text := self._next()) is not None:
            try:
                self._stream.write(text)
                self._stream.flush()
            except (OSError, ValueError):
                # Nobody will read it any more: the pipe is broken, or the stream closed.
                return

    def _next(self) -> str | None:
        """All that waits, or None at the end."""
        with self._there:
            self._there.wait_for(lambda: self._lines or self._is_over)
            lines = [*self._lines]
            self._lines.clear()
            if self._num_lost:
                lines.append(f"{self._num_lost} lines of the log were lost: nobody read it")
                self._num_lost = 0
        return "".join(f"{line}\n" for line in lines) if lines else None


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(super().format(record).split())

    def formatException(self, ei: object) -> str:
        assert isinstance(ei, tuple)
        return f"({ei[0].__name__}: {ei[1]})"


def _without_query(record: logging.LogRecord) -> bool:
    """Some clients put a key behind the question mark."""
    if isinstance(record.args, tuple) and len(record.args) == 5:
        client, method, path, *rest = record.args
        record.args = (client, method, str(path).partition("?")[0], *rest)
    return True


def _is_no_departure(record: logging.LogRecord) -> bool:
    return record.msg != "socket.send() raised exception."
