"""A hub on loopback that misbehaves on demand: the owner in a repository's name picks the fault.

`ok/…` behaves. The others break a listing or a body in one way each; see `_LISTINGS` and `_BODIES`.
Every request is written down, so that tests can say what crossed the wire.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

COMMIT = "1234567890abcdef1234567890abcdef12345678"


@dataclass(frozen=True, slots=True)
class Request:
    path: str
    range: str | None
    token: str | None

    @property
    def is_body(self) -> bool:
        return "/resolve/" in self.path


@dataclass
class FakeHub:
    """What the hub has, the same in every repository, and what it was asked."""

    files: dict[str, bytes]
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    sent_bytes: int = 0
    tries: Counter[str] = field(default_factory=Counter)
    """Requests for bodies, by path."""
    go_on: threading.Event = field(default_factory=threading.Event)
    """`stop/…` sends a part and then waits for this."""
    reached: threading.Event = field(default_factory=threading.Event)
    """`stop/…` has sent its part."""

    @property
    def ranges(self) -> list[str | None]:
        return [request.range for request in self.requests if request.is_body]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: ClassVar[FakeHub]

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
        request = Request(path, self.headers.get("Range"), token)
        self.hub.requests.append(request)
        listing = re.fullmatch(r"/api/models/([^/]+)/([^/]+)", path)
        body = re.fullmatch(r"/([^/]+)/[^/]+/resolve/[^/]+/(.+)", path)
        try:
            if listing:
                _LISTINGS.get(listing[1], _list)(self, request)
            elif body and body[2] in self.hub.files:
                self.hub.tries[path] += 1
                _BODIES.get(body[1], _send)(self, request, self.hub.files[body[2]])
            else:
                _refuse(404, "EntryNotFound")(self, request)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.hub.sent_bytes += len(body)

    def hang_up(self) -> None:
        self.close_connection = True


Listing = Callable[[_Handler, Request], None]
Body = Callable[[_Handler, Request, bytes], None]


def _siblings(hub: FakeHub) -> list[dict[str, Any]]:
    return [
        {
            "rfilename": name,
            "size": len(content),
            "blobId": hashlib.sha1(content).hexdigest(),
            "lfs": {
                "size": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
                "pointerSize": 134,
            },
        }
        for name, content in hub.files.items()
    ]


def _send_listing(handler: _Handler, siblings: object) -> None:
    body = json.dumps({"id": "some/model", "sha": COMMIT, "siblings": siblings}).encode()
    handler.answer(200, {"Content-Type": "application/json"}, body)


def _list(handler: _Handler, _: Request) -> None:
    _send_listing(handler, _siblings(handler.hub))


def _changed(**changes: Any) -> Listing:
    """A listing in which every file's `lfs` or size is another; None takes a field away."""

    def lists(handler: _Handler, _: Request) -> None:
        siblings = _siblings(handler.hub)
        for sibling in siblings:
            place = sibling if {"size", "lfs"} & set(changes) else sibling["lfs"]
            place.update(changes)
            for name in [name for name, value in changes.items() if value is None]:
                del place[name]
        _send_listing(handler, siblings)

    return lists


def _refuse(status: int, code: str | None, message: str = "", **headers: str) -> Listing:
    def refuses(handler: _Handler, _: Request) -> None:
        named = {"X-Error-Code": code} if code else {}
        told = {"X-Error-Message": message} if message else {}
        extra = {name.replace("_", "-"): value for name, value in headers.items()}
        handler.answer(status, {**named, **told, **extra}, b"{}")

    return refuses


def _refuse_bad_token(handler: _Handler, request: Request) -> None:
    message = "Invalid credentials in Authorization header"
    refuse = _refuse(401, None, message) if request.token else _list
    refuse(handler, request)


def _gated(handler: _Handler, request: Request) -> None:
    _refuse(403 if request.token else 401, "GatedRepo")(handler, request)


def _nonsense(handler: _Handler, _: Request) -> None:
    handler.answer(200, {"Content-Type": "text/html"}, b"<html>Welcome to the hotel</html>")


def _send(handler: _Handler, request: Request, content: bytes) -> None:
    start = _start(request)
    headers = {"Accept-Ranges": "bytes"}
    if request.range is None:
        handler.answer(200, headers, content)
        return
    end = _end(request, content)
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(content)}"
    handler.answer(206, headers, content[start:end])


def _start(request: Request) -> int:
    return int(request.range.removeprefix("bytes=").split("-")[0]) if request.range else 0


def _end(request: Request, content: bytes) -> int:
    last = request.range.split("-")[1] if request.range else ""
    return min(int(last) + 1, len(content)) if last else len(content)


def _part(handler: _Handler, request: Request, content: bytes) -> None:
    """Everything up to 40 % of the file, under headers that promise all of it."""
    start = _start(request)
    status, headers = 200, {"Content-Length": str(len(content) - start)}
    if start:
        headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        status = 206
    handler.answer(status, headers, content[start : max(start, len(content) * 2 // 5)])


def _cut_twice(handler: _Handler, request: Request, content: bytes) -> None:
    if handler.hub.tries[request.path] > 2:
        _send(handler, request, content)
    else:
        _part(handler, request, content)
        handler.hang_up()


def _always_short(handler: _Handler, request: Request, content: bytes) -> None:
    _part(handler, request, content)
    handler.hang_up()


def _stop_once(handler: _Handler, request: Request, content: bytes) -> None:
    is_header = request.range is not None and not request.range.endswith("-")
    if is_header or handler.hub.reached.is_set():
        _send(handler, request, content)
        return
    _part(handler, request, content)
    handler.hub.reached.set()
    handler.hub.go_on.wait()
    handler.hang_up()


def _ignore_ranges(handler: _Handler, request: Request, content: bytes) -> None:
    if handler.hub.tries[request.path] == 1:
        _always_short(handler, request, content)
    else:
        handler.answer(200, {}, content)


def _flip(handler: _Handler, request: Request, content: bytes) -> None:
    _send(handler, request, content[:-1] + bytes([content[-1] ^ 1]))


def _busy_first(handler: _Handler, request: Request, content: bytes) -> None:
    if handler.hub.tries[request.path] == 1:
        _refuse(503, None)(handler, request)
    else:
        _send(handler, request, content)


def _other(body: bytes) -> Body:
    return lambda handler, _request, _content: handler.answer(200, {}, body)


def _longer(handler: _Handler, request: Request, content: bytes) -> None:
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.wfile.write(content + b"more")
    handler.hang_up()


def _redirect(handler: _Handler, request: Request, content: bytes) -> None:
    if "stored" in request.path:
        _send(handler, request, content)
    else:
        elsewhere = request.path.replace("/resolve/", "/resolve/stored-")
        # Another name of this machine is another host to a client.
        host = handler.hub.url.replace("127.0.0.1", "localhost")
        handler.answer(302, {"Location": host + elsewhere}, b"")


_LISTINGS: dict[str, Listing] = {
    "huge": _changed(size=10 * 10**12),
    "nosha": _changed(lfs=None),
    "mirror": _changed(pointerSize=None),
    "gated": _gated,
    "refusing": _refuse_bad_token,
    "missing": _refuse(404, "RepoNotFound"),
    "anonymous": _refuse(401, None, "Invalid username or password."),
    "limited": _refuse(429, None, Retry_After="77"),
    "broken": _refuse(503, None),
    "hotel": _nonsense,
}
_BODIES: dict[str, Body] = {
    "cut": _cut_twice,
    "short": _always_short,
    "stop": _stop_once,
    "norange": _ignore_ranges,
    "flip": _flip,
    "busy": _busy_first,
    "login": _other(b"<html>Please log in</html>"),
    "pointer": _other(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
    "longer": _longer,
    "moved": _redirect,
}


@contextmanager
def running_hub(files: dict[str, bytes]) -> Iterator[FakeHub]:
    hub = FakeHub(files)
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    serving.start()
    try:
        yield hub
    finally:
        hub.go_on.set()
        server.shutdown()
        server.server_close()
        serving.join()
