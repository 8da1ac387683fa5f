"""A real `Worker` whose engine process is an object in the test's own asyncio loop.

Everything is real but the pipe's ends, the plan and the library, which is the strict fake. The
engine takes a step whenever the loop is free, so a test can hold it still between two steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import pytest

from edgekv.budget.planner import Basis
from edgekv.budget.wish import Wish
from edgekv.core.frames import LENGTH_BYTES, Command, Open, Submit, decode_command, encode
from edgekv.core.plan import (
    Choice,
    CostLine,
    MemoryPlan,
    PlannedDevice,
    PlannedModel,
)
from edgekv.engine.compiling import Compiled
from edgekv.engine.process import EngineProcess, Leave
from edgekv.service import planning
from edgekv.service.engine_client import SECONDS_OF_SILENCE, EngineClient
from edgekv.service.engine_log import EngineLog
from edgekv.service.remote_workers import NO_WORKERS, Workers
from edgekv.service.worker import Worker
from tests.fakes import FakeLibrary

MODEL_PATH = "/models/fake-q8.gguf"
CHOICE = Choice(
    context_length=512,
    slots=2,
    cells=1024,
    kv_type_k="f16",
    kv_type_v="f16",
    gpu_layers=0,
    batch=16,
    ubatch=16,
    swa_full=True,
    flash_attention=True,
    kept=2,
)

DEVICE = PlannedDevice("CPU", "cpu", "Fake CPU", 2**33, 2**32, 1000, False, "by the test")


async def fixed_plan(basis: Basis, _dry_run: object) -> MemoryPlan:
    """In place of `plan_memory`: `CHOICE`, whatever the machine has."""
    facts = basis.facts
    lines = (CostLine("CPU", "weights", 100, "from the file"), CostLine("CPU", "kv", 20, "cells"))
    model = PlannedModel(
        facts.path, facts.name, facts.architecture, facts.file_bytes, facts.context_train, {}
    )
    return MemoryPlan(1, model, (DEVICE,), CHOICE, lines, 120, 1000, True, ("the test",))


class InLoopProcess:
    """What an `asyncio.subprocess.Process` is to `EngineClient`; `stdin` is the object itself."""

    pid = 4242

    def __init__(self) -> None:
        self.stdin = self
        self.stdout = asyncio.StreamReader()
        self._exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def close(self) -> None:
        self.end(0)

    def kill(self) -> None:
        self.end(-9)

    def end(self, exit_code: int) -> None:
        if not self._exit_code.done():
            self._exit_code.set_result(exit_code)
            self.stdout.feed_eof()

    async def wait(self) -> int:
        return await asyncio.shield(self._exit_code)


class InLoopEngine(InLoopProcess):
    def __init__(self, library: FakeLibrary) -> None:
        super().__init__()
        self.idle = asyncio.Event()
        self._heard: asyncio.Queue[Command] = asyncio.Queue()
        self.is_held = False
        self.holds_open = False
        """Stand still when a model is to be opened."""
        self.dies_of_requests = False
        loop = asyncio.get_running_loop()
        self._inbox = _Inbox(lambda: loop.call_soon_threadsafe(self._wake))
        self._engine = EngineProcess(
            library,
            self._inbox,
            lambda frame: self.stdout.feed_data(encode(frame)),
            resident_bytes=lambda: 54321,
        )
        self._is_due = False

    def write(self, frame: bytes) -> None:
        command = decode_command(frame[LENGTH_BYTES:])
        self.is_held = self.is_held or (self.holds_open and isinstance(command, Open))
        if self.dies_of_requests and isinstance(command, Submit):
            self.end(-6)
        self.idle.clear()
        self._inbox.put(command)
        self._heard.put_nowait(command)

    async def hears(self, kind: type[Command]) -> None:
        """Wait for the next command of that kind."""
        while not isinstance(await self._heard.get(), kind):
            pass

    def hold(self) -> None:
        """Take no step until `go_on`."""
        self.is_held = True

    def go_on(self) -> None:
        self.is_held = self.holds_open = False
        self._wake()

    def _wake(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_due = False
        if self._inbox.empty() and self._engine.is_idle:
            self.idle.set()
        elif not self.is_held and not self._exit_code.done():
            self._engine.turn()
            self._wake()


class _Inbox(SimpleQueue[Command | Compiled | Leave]):
    """Wakes the engine, whichever thread fills it."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake

    def put(
        self, item: Command | Compiled | Leave, block: bool = True, timeout: float | None = None
    ) -> None:
        super().put(item)
        self._wake()


class Engines:
    """Every engine that a worker has started, the running one last."""

    def __init__(self, library: FakeLibrary) -> None:
        self.library = library
        self.started: list[InLoopEngine] = []
        self.holds_open = self.die_of_requests = False

    @property
    def last(self) -> InLoopEngine:
        return self.started[-1]

    async def start(self, *, workers: Workers = NO_WORKERS) -> EngineClient:
        assert workers == NO_WORKERS, "these engines have a machine of their own"
        engine = InLoopEngine(self.library)
        engine.holds_open = self.holds_open
        engine.dies_of_requests = self.die_of_requests
        self.started.append(engine)
        return EngineClient(engine, EngineLog(), SECONDS_OF_SILENCE)  # type: ignore[arg-type]


@contextmanager
def in_loop_worker(library: FakeLibrary) -> Iterator[tuple[Worker, Engines]]:
    """A worker that is not started yet, and the engines it will start."""
    engines = Engines(library)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EngineClient, "start", engines.start)
        patch.setattr(planning, "plan_memory", fixed_plan)
        yield Worker(MODEL_PATH, Wish()), engines
