"""The life of `edgekv worker`: a child process lends, and is started again if it dies."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

from edgekv.budget.lending import Loan
from edgekv.errors import Unavailable
from edgekv.service import supervisor
from edgekv.service.engine_client import ENVIRONMENT, SECONDS_TO_END, ending_words
from edgekv.service.engine_log import EngineLog
from edgekv.service.own_command import own_command
from edgekv.service.remote_workers import answers
from edgekv.service.signals import TO_STOP, hearing

SECONDS_BETWEEN_LOOKS = 0.05
"""While a child loads its library."""


class Lender:
    """Lends `loans` at an IPv4 address and a port, to one EdgeKV at a time."""

    def __init__(self, host: str, port: int, loans: Sequence[Loan], num_threads: int) -> None:
        self._host, self._port = host, port
        limits = (f"{loan.device_id}={loan.bytes}" for loan in loans)
        where = ("--host", host, "--port", str(port), "--threads", str(num_threads))
        self._command = [*own_command("lend"), *where, *limits]

    async def run(
        self, on_ready: Callable[[], None], on_death: Callable[[str], None]
    ) -> signal.Signals:
        """Lend until SIGINT or SIGTERM, which is returned. Nothing is left running.

        `on_death` hears how a child ended that had lent. Raises `Unavailable` if none can.
        """
        stopped: asyncio.Future[signal.Signals] = asyncio.get_running_loop().create_future()

        def stop(caught: signal.Signals) -> None:
            if not stopped.done():
                stopped.set_result(caught)

        with hearing(TO_STOP, stop):
            while not stopped.done():
                child = await self._start()
                over = asyncio.create_task(child.wait())
                try:
                    if await self._comes_up(over, stopped):
                        _say_it_answers(child)
                        on_ready()
                        supervisor.tell_ready()
                    await _first_of(stopped, over)
                finally:
                    await _end(child)
                if not stopped.done():
                    on_death(ending_words(await over))
            return stopped.result()

    async def _start(self) -> asyncio.subprocess.Process:
        with EngineLog().open() as log:
            return await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=ENVIRONMENT | os.environ,
                # Ctrl+C in the terminal is for the parent alone.
                start_new_session=True,
            )

    async def _comes_up(
        self, over: asyncio.Task[int], stopped: asyncio.Future[signal.Signals]
    ) -> bool:
        """Wait until it lends, or is to stop. Raises `Unavailable` if it ends before."""
        while not stopped.done():
            if over.done():
                raise Unavailable(
                    f"Nothing can be lent at {self._host} port {self._port}: the process that "
                    f"lends ended ({ending_words(over.result())}); see 'edgekv doctor'."
                )
            if await answers(f"{self._host}:{self._port}"):
                return True
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        return False


def _say_it_answers(child: asyncio.subprocess.Process) -> None:
    """So it has a listening socket, and can set its options."""
    assert child.stdin is not None
    child.stdin.write(b"\n")


async def _first_of(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


async def _end(child: asyncio.subprocess.Process) -> None:
    assert child.stdin is not None
    child.stdin.close()
    try:
        await asyncio.wait_for(child.wait(), SECONDS_TO_END)
    except TimeoutError:
        child.kill()
        await child.wait()
