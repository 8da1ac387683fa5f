"""The front end's end of the pipe to one engine process."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import Callable
from typing import TypeAlias

from edgekv.core.events import StreamEvent
from edgekv.core.frames import (
    LENGTH_BYTES,
    Command,
    EngineFrame,
    Look,
    Looked,
    Progress,
    Refused,
    Reply,
    Snapshot,
    StepFrame,
    Submit,
    decode_engine_frame,
    encode,
    frame_length,
)
from edgekv.core.look import EngineLook
from edgekv.core.request import RequestId
from edgekv.errors import EngineDied, Unavailable
from edgekv.service.engine_log import EngineLog
from edgekv.service.own_command import own_command
from edgekv.service.remote_workers import NO_WORKERS, Workers
from edgekv.service.rhythm import Rhythm

ENVIRONMENT = {
    # An abort would start a debugger wherever one is installed.
    "GGML_NO_BACKTRACE": "1",
    # How long OpenMP's threads spin at a barrier before they sleep. Without a limit whatever else
    # runs starves: one token took 170 to 200 ms beside five busy processes on two cores, 8 ms
    # alone. This limit costs nothing alone; never to spin costs three quarters of the speed.
    "GOMP_SPINCOUNT": "3000",
}
"""What the engine's environment holds unless the user's own says otherwise."""

SECONDS_TO_END = 5.0
"""How long a process may take to end after its stdin closed, before it is killed."""
SECONDS_OF_SILENCE = 600.0
"""How long work may be pending without a frame before the process counts as hung. One step of
a 70B model on a slow processor takes minutes."""


class Interrupted(Exception):
    """The model is being opened in another way; the request goes on there."""


Death: TypeAlias = EngineDied | Unavailable
"""Why a process can take no more frames; `Unavailable` if another would end in the same way."""
EventQueue = asyncio.Queue[StreamEvent | Death | Interrupted]


class EngineClient:
    """One engine process, from `start` to its end. Belongs to one asyncio loop."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        log: EngineLog,
        seconds_of_silence: float,
        workers: Workers = NO_WORKERS,
    ) -> None:
        self.workers = workers
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._stdin, self._stdout = process, process.stdin, process.stdout
        self._calls = itertools.count(1)
        self._replies: dict[int, asyncio.Future[Reply]] = {}
        self._progress: dict[int, Callable[[float], None]] = {}
        self._streams: dict[RequestId, EventQueue] = {}
        self._log = log
        self._seconds_of_silence = seconds_of_silence
        self._is_hung = False
        self._num_heard = 0
        """Frames."""
        self._reading = asyncio.create_task(self._read())
        self.snapshot = Snapshot()
        self.rhythm = Rhythm()
        self.death: Death | None = None

    @classmethod
    async def start(
        cls,
        seconds_of_silence: float = SECONDS_OF_SILENCE,
        *,
        command: str = "engine",
        workers: Workers = NO_WORKERS,
    ) -> EngineClient:
        """`command` is the one of EdgeKV's own that speaks frames; `workers` lend it devices."""
        log = EngineLog()
        with log.open() as stream:
            process = await asyncio.create_subprocess_exec(
                *own_command(command),
                *workers.addresses,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stream,
                env=ENVIRONMENT | os.environ,
                # Ctrl+C in the terminal is for the front end alone.
                start_new_session=True,
            )
        return cls(process, log, seconds_of_silence, workers)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def died_of_memory(self) -> bool:
        """Whether this process ended because memory ran out, as far as anybody can tell."""
        return self.death is not None and self._log.tells_of_memory()

    def send(self, command: Command) -> None:
        """Queue a command for the pipe. A dead process is noticed by whoever waits for it."""
        if self.death is None:
            self._stdin.write(encode(command))
            if isinstance(command, Submit):
                self.rhythm.ask(command.request_id)

    async def call(
        self,
        command: Callable[[int], Command],
        on_progress: Callable[[float], None] | None = None,
    ) -> Reply:
        """Send a command made from a fresh call number; returns its reply.

        Raises the error of a refusal, or a `Death`.
        """
        if self.death is not None:
            raise self.death
        number = next(self._calls)
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._replies[number] = future
        if on_progress is not None:
            self._progress[number] = on_progress
        try:
            self.send(command(number))
            reply = await future
        finally:
            self._replies.pop(number, None)
            self._progress.pop(number, None)
        if isinstance(reply, Refused):
            raise reply.error.to_error()
        return reply

    async def look(self) -> EngineLook:
        """What runs and waits in the model that is open. Raises as `call`."""
        reply = await self.call(Look)
        assert isinstance(reply, Looked)
        return reply.look

    def open_stream(self, request_id: RequestId) -> EventQueue:
        """A queue that gets the request's events, or the engine's death."""
        queue = self._streams[request_id] = EventQueue()
        if self.death is not None:
            queue.put_nowait(self.death)
        return queue

    def close_stream(self, request_id: RequestId) -> None:
        self._streams.pop(request_id, None)

    def interrupt_streams(self) -> None:
        """End every stream with `Interrupted`, behind what has come for it."""
        for queue in self._streams.values():
            queue.put_nowait(Interrupted())

    async def close(self) -> None:
        """End the process and everything that waits for it."""
        self._stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), SECONDS_TO_END)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reading

    async def _read(self) -> None:
        watching = asyncio.create_task(self._watch_for_silence())
        try:
            while True:
                self._receive(await self._read_frame())
        except (asyncio.IncompleteReadError, ConnectionError):
            self._die(await self._process.wait())
        finally:
            watching.cancel()

    async def _watch_for_silence(self) -> None:
        """Kill a process that owes an answer and stays silent for too long.

        It looks now and then, since a timer for every frame costs more than the frame. So the
        silence lasts at least as long as it may, and at most twice as long.
        """
        while not self._is_hung:
            heard, owed = self._num_heard, self._owes_answer
            await asyncio.sleep(self._seconds_of_silence)
            if owed and self._owes_answer and self._num_heard == heard:
                self._is_hung = True
                self._process.kill()

    @property
    def _owes_answer(self) -> bool:
        return bool(self._streams or self._replies)

    async def _read_frame(self) -> EngineFrame:
        prefix = await self._stdout.readexactly(LENGTH_BYTES)
        return decode_engine_frame(await self._stdout.readexactly(frame_length(prefix)))

    def _receive(self, frame: EngineFrame) -> None:
        self._num_heard += 1
        if isinstance(frame, StepFrame):
            self.snapshot = frame.snapshot
            self.rhythm.hear(frame.events)
            for event in frame.events:
                if queue := self._streams.get(event.request_id):
                    queue.put_nowait(event)
        elif isinstance(frame, Progress):
            if hear := self._progress.get(frame.call):
                hear(frame.fraction)
        elif (future := self._replies.get(frame.call)) and not future.done():
            future.set_result(frame)

    def _die(self, exit_code: int) -> None:
        self.death = self._cause(exit_code)
        for future in self._replies.values():
            if not future.done():
                future.set_exception(self.death)
        for queue in self._streams.values():
            queue.put_nowait(self.death)

    def _cause(self, exit_code: int) -> Death:
        if exit_code == -signal.SIGILL:
            return Unavailable(
                "llama.cpp was built for another processor than this one; "
                "'edgekv doctor' says what mends it."
            )
        how = ending_words(exit_code)
        if self._is_hung:
            how = f"no sign of life for {self._seconds_of_silence:g} seconds"
        return EngineDied(
            f"The engine process ended ({how}); send the request again and it starts anew."
        )


def ending_words(exit_code: int) -> str:
    """How a process ended."""
    return f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
