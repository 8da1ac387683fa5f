"""The way in, and its end: who is inside may finish, who comes then is told to come back."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Receive, Scope, Send

from edgekv.errors import NotReady
from edgekv.server.errors import error_response, json_response

HEALTH = "/health"


class Door:
    """Open from the start until `close`."""

    def __init__(self) -> None:
        self.is_open = True
        self.num_inside = 0
        """Requests that are being answered, those that only look included."""
        self._left = asyncio.Event()

    def close(self) -> None:
        self.is_open = False
        self._left.set()

    async def when_empty(self) -> None:
        """Returns once nobody is inside. To be asked after `close`."""
        while self.num_inside:
            self._left.clear()
            await self._left.wait()

    def enter(self) -> None:
        self.num_inside += 1

    def leave(self) -> None:
        self.num_inside -= 1
        self._left.set()


class Doorkeeper:
    """An ASGI layer that counts who is inside, and answers whoever comes to a closed door."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app, self._door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif self._door.is_open:
            self._door.enter()
            try:
                await self._app(scope, receive, send)
            finally:
                self._door.leave()
        elif scope["path"] == HEALTH:
            health = {"status": "draining", "requests": self._door.num_inside}
            await json_response(health, 503)(scope, receive, send)
        else:
            refusal = NotReady("The server is stopping; send the request again later.")
            await error_response(refusal)(scope, receive, send)
