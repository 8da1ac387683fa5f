"""One HTTP connection: uvicorn's, told apart from a client that left."""

from __future__ import annotations

import asyncio

import h11
from starlette.exceptions import HTTPException
from uvicorn.protocols.http.h11_impl import H11Protocol

from edgekv.server.errors import http_error_response

SECONDS_BETWEEN_PROBES = 0.25


class Connection(H11Protocol):
    """Keeps answering a client that only closed its sending side.

    A client that left looks the same until something is written to it: then its machine answers
    with a reset, which the write after that hears of. What is written while nothing else is has
    no meaning: an interim response before the answer, an empty comment in a stream.
    """

    _probing: asyncio.TimerHandle | None = None

    # The base class says None, which is one of the two answers asyncio takes.
    def eof_received(self) -> bool:  # type: ignore[override]
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            return False
        if self.scope["http_version"] != "1.1":  # 1.0 knows no interim responses
            return False
        self.cycle.keep_alive = False
        self._probe()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        if self._probing is not None:
            self._probing.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        answer = http_error_response(HTTPException(400, msg))
        for event in (
            h11.Response(status_code=400, headers=[*answer.raw_headers, (b"connection", b"close")]),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _probe(self) -> None:
        if self.cycle.response_complete or self.transport.is_closing():
            return
        event = (
            h11.Data(data=b":\n\n")
            if self.cycle.response_started
            else h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
        )
        self.transport.write(self.conn.send(event) or b"")
        self._probing = self.loop.call_later(SECONDS_BETWEEN_PROBES, self._probe)
