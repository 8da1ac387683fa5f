"""One model for the front end: its engine process, its plan and a stream per request.

worker = Worker(path, Wish(...))
await worker.start(on_progress)          # plan, then load
async for event in worker.stream(Submit(...)):
    ...                                  # Started, Delta …, Finished
await worker.close()
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import StrEnum

from edgekv.budget.wish import Wish
from edgekv.core.events import Delta, Finished, Started
from edgekv.core.frames import Snapshot, Submit
from edgekv.core.plan import Allocation, MemoryPlan, ModelFacts
from edgekv.core.request import Segment, Token


class State(StrEnum):
    STARTING = "starting"
    PLANNING = "planning"
    LOADING = "loading"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class LoadStep:
    """Where a start is: `fraction` of the weights is loaded while `state` is LOADING."""

    state: State
    fraction: float = 0.0


class Worker:
    """Owns one engine process on the running asyncio loop.

    `facts`, `plan` and `allocation` are None until `start` has got that far.
    `snapshot` is the engine's last one and is always there.
    """

    state: State
    facts: ModelFacts | None
    plan: MemoryPlan | None
    allocation: Allocation | None
    snapshot: Snapshot
    num_restarts: int

    def __init__(self, path: str, wish: Wish) -> None:
        raise NotImplementedError

    async def start(self, on_progress: Callable[[LoadStep], None] = lambda _: None) -> None:
        """Plan and load. Raises `ModelError`, `DoesNotFit` or `EngineDied`; then nothing runs."""
        raise NotImplementedError

    async def make_plan(self) -> MemoryPlan:
        """The plan alone, nothing loaded. Raises as `start`."""
        raise NotImplementedError

    def stream(self, submit: Submit) -> AsyncIterator[Started | Delta | Finished]:
        """Run one request. The last event is `Finished`.

        Raises the `EdgeKVError` of a request that fails: `RequestError`s before `Started`,
        `EngineDied` at any time. Closing the iterator early cancels the request. After the
        engine died the next request starts it again.
        """
        raise NotImplementedError

    async def tokenize(self, segments: tuple[Segment, ...]) -> tuple[Token, ...]:
        raise NotImplementedError

    async def detokenize(self, tokens: tuple[Token, ...]) -> str:
        raise NotImplementedError

    async def close(self) -> None:
        """End the engine process and every stream. Safe to call twice."""
        raise NotImplementedError
