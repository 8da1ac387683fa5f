"""What the bodies of requests may take: each for itself, and all that are answered together."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_LIMIT_BYTES = 16 * 1024 * 1024
BODIES_LIMIT_BYTES = 2 * BODY_LIMIT_BYTES
"""Of all requests that are being answered. A body is kept as text, as prompt and on its way to the
engine, so the process may hold several times as much."""
UNCOUNTED_BYTES = 64 * 1024
"""Of each body: what its connection may hold anyway before somebody reads it. So a few requests of
many bytes keep nobody with an ordinary one waiting."""


async def body_of(request: Request) -> bytes:
    """Raises `HTTPException` 413 before more than the limit is in memory, and before anything is
    for a body that is announced to be larger.
    """
    _check_length(int(request.headers.get("content-length", 0)))
    parts: list[bytes] = []
    length = 0
    async for part in request.stream():
        length += len(part)
        _check_length(length)
        parts.append(part)
    return b"".join(parts)


def check_copies(body: bytes, count: int) -> None:
    """Raise `HTTPException` 413 for more answers than may be asked for with such a body: each is a
    request of its own to the engine.
    """
    if len(body) * count > BODY_LIMIT_BYTES:
        raise HTTPException(
            413,
            f"A body may have {BODY_LIMIT_BYTES} bytes for all its {count} answers together; "
            "send less, or ask for fewer answers.",
        )


def _check_length(num_bytes: int) -> None:
    if num_bytes > BODY_LIMIT_BYTES:
        raise HTTPException(413, f"A body may have {BODY_LIMIT_BYTES} bytes; send less.")


class Bodies:
    """An ASGI layer that counts the bytes of bodies from their arrival to the end of the answer.

    Whoever reads a body meets `HTTPException` 429 at the part with which all would be more than
    `BODIES_LIMIT_BYTES`. Nobody waits for room: each could hold a part of what the others wait for.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.num_bytes = 0
        """Without the uncounted ones."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        length = counted = 0

        async def counting() -> Message:
            nonlocal length, counted
            message = await receive()
            length += len(message.get("body", b""))
            more = max(0, length - UNCOUNTED_BYTES) - counted
            self._take(more)
            counted += more
            return message

        try:
            await self._app(scope, counting, send)
        finally:
            self.num_bytes -= counted

    def _take(self, num_bytes: int) -> None:
        if num_bytes and self.num_bytes + num_bytes > BODIES_LIMIT_BYTES:
            raise HTTPException(
                429,
                f"The bodies of requests under way take {BODIES_LIMIT_BYTES} bytes, which is as "
                "much as they may; send this one again in a moment.",
                {"Retry-After": "1"},
            )
        self.num_bytes += num_bytes
