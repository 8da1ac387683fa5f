"""Who may ask: the page a browser shows is somebody else's program on this very machine."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from edgekv.server.errors import http_error_response

ANY_ORIGIN = "*"
OPEN_PATHS = frozenset({"/health"})
"""Answered without a key: a load balancer has none, and it says nothing about conversations."""


@dataclass(frozen=True, slots=True)
class Access:
    host: str
    """The address that is listened on."""
    api_key: str | None = field(default=None, repr=False)
    origins: tuple[str, ...] = ()
    """Web sites whose pages may ask, or `ANY_ORIGIN`."""


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """An ASGI layer that answers with `check`'s refusal, if it raises one."""

    def __init__(self, app: ASGIApp, check: Callable[[Scope], None]) -> None:
        self._app, self._check = app, check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._check(scope)
            except HTTPException as refusal:
                await http_error_response(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def check_site(access: Access) -> Callable[[Scope], None]:
    """Refuses what a page of another site made a browser ask.

    Without this, any page could have this machine compute, and a page whose name was rebound to
    127.0.0.1 could read the answers.
    """

    def check(scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if access.api_key is None and not _names_this_machine(host, access.host):
            raise HTTPException(403, f"The Host '{host}' is not this machine; ask for 127.0.0.1.")
        origin = headers.get("origin")
        is_welcome = (
            origin is None
            or {origin, ANY_ORIGIN} & set(access.origins)
            or origin.partition("://")[2] == host
        )
        if not is_welcome:
            raise HTTPException(
                403, f"Pages of {origin} may not ask; start the server with --cors {origin}."
            )

    return check


class Lock:
    """What callers must send, if anything; it may be changed while they do."""

    def __init__(self, api_key: str | None) -> None:
        self.api_key = api_key


def check_key(lock: Lock) -> Callable[[Scope], None]:
    """Refuses whoever does not know the key."""

    def check(scope: Scope) -> None:
        if lock.api_key is None or scope["path"] in OPEN_PATHS:
            return
        headers = Headers(scope=scope)
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            given = headers.get("x-api-key", "")  # where Anthropic's clients put it
        # Compared in constant time: the answer's delay must not tell how much was right.
        if not hmac.compare_digest(given.strip().encode(), lock.api_key.encode()):
            raise HTTPException(
                401,
                "Send the key that the server was started with, as 'Authorization: Bearer KEY'.",
                {"WWW-Authenticate": "Bearer"},
            )

    return check


def _names_this_machine(host_header: str, listened_on: str) -> bool:
    try:
        name = urlsplit(f"//{host_header}").hostname or ""
    except ValueError:
        return False
    return is_loopback(name) or name.endswith(".localhost") or name == listened_on.lower()
