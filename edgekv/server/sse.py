"""Server-sent events, and work that ends when its client leaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from edgekv.errors import EdgeKVError
from edgekv.server.errors import answer_of

HEARTBEAT_SECONDS = 5.0
"""Longest silence; proxies and clients give a connection up after half a minute or more."""
HEARTBEAT = b": waiting\n\n"
DONE = b"data: [DONE]\n\n"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StreamForm:
    event: Callable[[object], bytes]
    error: Callable[[EdgeKVError], bytes]
    end: bytes


class EventStream(Response):
    """One event a chunk, then the end of its form.

    An error before the first event is raised, so that it becomes an ordinary error answer; a
    later one is the last event, without the end, after `on_error` heard of it.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        chunks: AsyncGenerator[object],
        on_error: Callable[[EdgeKVError], None],
        form: StreamForm | None = None,
    ) -> None:
        self.status_code, self.background = 200, None
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._chunks, self._on_error = chunks, on_error
        self._form = form or PLAIN_EVENTS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(ClientDisconnect):
            await while_connected(receive, self._write(send))

    async def _write(self, send: Send) -> None:
        body = _Body(send, {"status": self.status_code, "headers": self.raw_headers})
        beating = asyncio.ensure_future(body.beat())
        try:
            async with aclosing(self._chunks) as chunks:
                async for chunk in chunks:
                    await body.write(self._form.event(chunk))
            await body.write(self._form.end)
        except EdgeKVError as error:
            if not body.is_started:
                raise
            self._on_error(error)
            await body.write(self._form.error(error))
        finally:
            await _end(beating)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Body:
    """An answer in parts; with the first of them it starts."""

    def __init__(self, send: Send, start: Mapping[str, Any]) -> None:
        self._send, self._start = send, start
        self._last = time.monotonic()
        """When something was written."""
        # A part waits where the client is slow to read, and nothing may overtake it.
        self._lock = asyncio.Lock()
        self.is_started = False

    async def write(self, text: bytes) -> None:
        async with self._lock:
            if not self.is_started:
                self.is_started = True
                await self._send({"type": "http.response.start", **self._start})
            await self._send({"type": "http.response.body", "body": text, "more_body": True})
            self._last = time.monotonic()

    async def beat(self) -> None:
        """Write a heartbeat whenever nothing else was written for a while."""
        while True:
            silent = time.monotonic() - self._last
            if silent >= HEARTBEAT_SECONDS:
                await self.write(HEARTBEAT)
            await asyncio.sleep(max(0.0, HEARTBEAT_SECONDS - silent))


def event(value: object) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def named_event(value: object) -> bytes:
    """For a mapping whose `type` is the event's name."""
    assert isinstance(value, Mapping)
    return f"event: {value['type']}\n".encode() + event(value)


PLAIN_EVENTS = StreamForm(event, lambda error: event(answer_of(error)), DONE)
NAMED_EVENTS = StreamForm(named_event, lambda error: named_event(_error_event(error)), b"")


def _error_event(error: EdgeKVError) -> dict[str, object]:
    return {"type": "error", "error": msgspec.to_builtins(answer_of(error).error)}


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`; if the client leaves first, `work` is cancelled.

    Raises `ClientDisconnect` then. The request's body must have been read.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_departure(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        await _end(working)
        await _end(leaving)


async def _departure(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end(task: asyncio.Future[Any]) -> None:
    """Cancel and wait; whatever it ends with was heard elsewhere or is of no interest."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
