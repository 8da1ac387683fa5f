"""One HTTP connection: uvicorn's, told apart from a client that left."""

from __future__ import annotations

import asyncio
import logging

import h11
from starlette.exceptions import HTTPException
from uvicorn.protocols.http.h11_impl import H11Protocol

from edgekv.server.errors import http_error_response

SECONDS_BETWEEN_PROBES = 0.25
SECONDS_TO_READ = 30.0
"""How long a client may leave what was written to it unread before it is dropped."""

logger = logging.getLogger(__name__)


class Connection(H11Protocol):
    """Keeps answering a client that only closed its sending side.

    A client that left looks the same until something is written to it: then its machine answers
    with a reset, which the write after that hears of. What is written while nothing else is has
    no meaning: an interim response before the answer, an empty comment in a stream.

    A client that does not read fills its machine's buffers, then ours; it keeps nobody waiting for
    ever.
    """

    _probing: asyncio.TimerHandle | None = None
    _stalling: asyncio.TimerHandle | None = None

    # The base class says None, which is one of the two answers asyncio takes.
    def eof_received(self) -> bool:  # type: ignore[override]
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            return False
        if self.scope["http_version"] != "1.1":  # 1.0 knows no interim responses
            return False
        if self.transport.get_extra_info("sslcontext"):  # asyncio closes both sides of these
            return False
        self.cycle.keep_alive = False
        self._probe()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._probing, self._stalling):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalling = self.loop.call_later(SECONDS_TO_READ, self._drop)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalling is not None:
            self._stalling.cancel()

    def send_400_response(self, msg: str) -> None:
        answer = http_error_response(HTTPException(400, msg))
        for event in (
            h11.Response(status_code=400, headers=[*answer.raw_headers, (b"connection", b"close")]),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _drop(self) -> None:
        logger.warning(
            "%s:%s was dropped: it read too little of its answer for %g seconds",
            *(self.client or ("a client", 0)),
            SECONDS_TO_READ,
        )
        self.transport.abort()

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
