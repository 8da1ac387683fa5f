"""A whole server on a real port in the test's own loop, and what most tests ask of it."""

from __future__ import annotations

import asyncio
import signal
import ssl

from edgekv.server import run
from edgekv.server.guard import Access
from edgekv.service.worker import Worker

PATIENCE_SECONDS = 120
HI = {"messages": [{"role": "user", "content": "hi"}]}
LONG = {**HI, "ignore_eos": True}
CHAT = "/v1/chat/completions"


class Server:
    """`run.run` in a task of its own."""

    def __init__(self, worker: Worker, encryption: ssl.SSLContext | None = None) -> None:
        self.worker = worker
        self.ready = asyncio.Event()
        listener = run.listen("127.0.0.1", 0)
        self.url = run.url_of(listener, is_encrypted=encryption is not None)
        self.running = asyncio.create_task(
            run.run(worker, listener, Access("127.0.0.1"), self.ready.set, run.Manner(encryption))
        )

    async def started(self) -> None:
        """Until it is ready. Raises what kept it from that."""
        await until_ready(self.ready, self.running)

    async def end(self, number: signal.Signals = signal.SIGTERM) -> signal.Signals:
        if callable(signal.getsignal(number)):  # else it would end pytest itself
            signal.raise_signal(number)
        return await self.running


async def until_ready(ready: asyncio.Event, running: asyncio.Task[signal.Signals]) -> None:
    """Waits for a server of which these are parts. Raises what kept it from getting ready."""
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({waiting, running}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not ready.is_set():
        await running
