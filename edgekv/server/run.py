"""A server's life: the port, the load, the answers, the signal that ends it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import uvicorn

from edgekv.errors import Unavailable
from edgekv.server.api import Api
from edgekv.server.app import create_app
from edgekv.server.connection import Connection
from edgekv.server.guard import Access
from edgekv.service.worker import Worker

SECONDS_TO_FINISH = 5
"""For connections after their streams were ended; then they are cut."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; raises `Unavailable` if the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise Unavailable(
            f"Cannot listen on {host} port {port} ({reason}); "
            "choose another with --port, or stop the program that has it."
        ) from None


def url_of(listener: socket.socket, *, is_encrypted: bool = False) -> str:
    host, port = listener.getsockname()[:2]
    scheme = "https" if is_encrypted else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


async def run(
    worker: Worker,
    listener: socket.socket,
    access: Access,
    on_ready: Callable[[], None],
    encryption: ssl.SSLContext | None = None,
) -> signal.Signals:
    """Answer from the first moment, load, and end with the signal that is returned.

    Raises what `Worker.start` raises. Whatever happens, the engine and the port are gone after.
    """
    api = Api(worker)
    server = _Server(
        uvicorn.Config(
            create_app(api, access),
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            server_header=False,
            ssl_context_factory=None if encryption is None else lambda _config, _make: encryption,
            timeout_graceful_shutdown=SECONDS_TO_FINISH,
        )
    )
    stopped: asyncio.Future[signal.Signals] = asyncio.get_running_loop().create_future()

    def stop(caught: signal.Signals) -> None:
        if stopped.done():
            server.force_exit = True
        else:
            stopped.set_result(caught)

    serving = asyncio.create_task(server.serve(sockets=[listener]))
    loading = asyncio.create_task(worker.start(api.on_progress))
    try:
        with _signals(stop):
            await _first_of(loading, stopped, serving)
            if loading.done():
                loading.result()
                on_ready()
            await _first_of(stopped, serving)
            return stopped.result()
    finally:
        server.should_exit = True
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)
        await worker.close()
        await serving
        await api.close()


async def _first_of(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are heard in `run`, which has more to end than connections."""
        yield


@contextlib.contextmanager
def _signals(hear: Callable[[signal.Signals], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def handler(number: int, _: FrameType | None) -> None:
        loop.call_soon_threadsafe(hear, signal.Signals(number))

    before = {s: signal.signal(s, handler) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def log_to_stderr() -> None:
    """One line an event: who asked for what path, and what went wrong; never what was said."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("%(asctime)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    access = logging.getLogger("uvicorn.access")
    access.setLevel(logging.INFO)
    access.addFilter(_without_query)


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
