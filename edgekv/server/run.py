"""A server's life: the port, the load, the answers, the signal that ends it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from edgekv.errors import SettingsError, Unavailable
from edgekv.server.api import Api
from edgekv.server.app import create_app
from edgekv.server.connection import Connection
from edgekv.server.door import Door
from edgekv.server.guard import Access, Lock
from edgekv.service import supervisor
from edgekv.service.signals import TO_STOP, hearing
from edgekv.service.worker import Worker

SECONDS_TO_FINISH = 5
"""For connections after their streams were ended; then they are cut."""
SECONDS_IDLE = 75
"""A connection without a request is kept so long. The client should be the one who closes it: what
it sends while the server does is lost, and OpenAI's client, like uvicorn, gives up after 5."""

_log = logging.getLogger(__name__)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; raises `Unavailable` if the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        # By number: Python's own words for the address in use name the address once more.
        reason = (os.strerror(error.errno) if error.errno else str(error)).lower()
        raise Unavailable(
            f"Cannot listen on {host} port {port} ({reason}); "
            "choose another with --port, or stop the program that has it."
        ) from None


def url_of(listener: socket.socket, *, is_encrypted: bool = False) -> str:
    host, port = listener.getsockname()[:2]
    scheme = "https" if is_encrypted else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


@dataclass(frozen=True, slots=True)
class Manner:
    """How a server ends, and what it reads again."""

    encryption: ssl.SSLContext | None = None
    seconds_to_drain: float = 0.0
    """For answers under way when it is told to stop; those that take longer are ended."""
    reread_key: Callable[[], str | None] | None = None
    """Gives the key that callers must send from now on, or raises `SettingsError`. Asked for when
    the process is told to reload (SIGHUP); without it that signal does nothing of ours."""


AS_USUAL = Manner()


async def run(
    worker: Worker,
    listener: socket.socket,
    access: Access,
    on_ready: Callable[[], None],
    manner: Manner = AS_USUAL,
) -> signal.Signals:
    """Answer from the first moment, load, and end with the signal that is returned.

    Raises what `Worker.start` raises. Whatever happens, the engine and the port are gone after.
    """
    api, door, lock = Api(worker), Door(), Lock(access.api_key)
    server = _Server(_config(create_app(api, access, door, lock), manner.encryption))
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[signal.Signals] = loop.create_future()
    hurried: asyncio.Future[None] = loop.create_future()

    def hear(caught: signal.Signals) -> None:
        if caught not in TO_STOP:
            _reload(manner, lock)
        elif not stopped.done():
            stopped.set_result(caught)
        elif not hurried.done():
            hurried.set_result(None)
        else:
            server.force_exit = True  # not even the last words of streams are waited for

    serving = asyncio.create_task(server.serve(sockets=[listener]))
    loading = asyncio.create_task(worker.start(api.on_progress))
    watching = asyncio.create_task(api.watch_load())
    try:
        with hearing(_heard(reloads=manner.reread_key is not None), hear):
            await _first_of(loading, stopped, serving)
            if loading.done():
                loading.result()
                on_ready()
                supervisor.tell_ready()
            await _first_of(stopped, serving)
            supervisor.tell_stopping()
            await _drain(door, hurried, manner.seconds_to_drain)
            return stopped.result()
    finally:
        server.should_exit = True
        await _end(loading, watching)
        await worker.close()
        await serving
        await api.close()


def _config(app: ASGIApp, encryption: ssl.SSLContext | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        server_header=False,
        ssl_context_factory=None if encryption is None else lambda _config, _make: encryption,
        timeout_keep_alive=SECONDS_IDLE,
        timeout_graceful_shutdown=SECONDS_TO_FINISH,
    )


async def _drain(door: Door, hurried: asyncio.Future[None], seconds: float) -> None:
    """Let nobody in any more, and those inside finish, unless they take too long."""
    door.close()
    if seconds and door.num_inside:
        _log.warning("Stopping; requests under way: %d.", door.num_inside)
        empty = asyncio.create_task(door.when_empty())
        await asyncio.wait({empty, hurried}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        empty.cancel()


def _reload(manner: Manner, lock: Lock) -> None:
    assert manner.reread_key is not None
    supervisor.tell_reloading()
    try:
        lock.api_key = manner.reread_key()
        _log.warning("The key and the certificate were read again.")
    except SettingsError as error:
        _log.error("All stays as it was: %s", error)
    supervisor.tell_ready()


async def _end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _first_of(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are heard in `run`, which has more to end than connections."""
        yield


def _heard(*, reloads: bool) -> tuple[signal.Signals, ...]:
    return (*TO_STOP, signal.SIGHUP) if reloads and sys.platform != "win32" else TO_STOP
