"""What the terminal app needs of whoever holds the model: a worker of its own, or a server."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from edgekv.core.events import AnswerStream
from edgekv.core.frames import Inspection, Snapshot, Submit
from edgekv.core.plan import MemoryPlan, ModelFacts
from edgekv.core.request import RequestId, Segment, Token
from edgekv.service.drafts import Desk
from edgekv.service.report import Report
from edgekv.service.states import LoadStep, State


class ModelHost(Protocol):
    """`Worker` is one, and says what each of these does."""

    @property
    def state(self) -> State: ...

    @property
    def facts(self) -> ModelFacts | None: ...

    @property
    def plan(self) -> MemoryPlan | None: ...

    @property
    def snapshot(self) -> Snapshot: ...

    @property
    def own_requests(self) -> Collection[RequestId] | None:
        """This program's among the requests of a report. None: all of them are."""

    @property
    def desk(self) -> Desk | None:
        """Where another plan can be tried and taken. None: the plan is not this program's."""

    async def start(self, on_progress: Callable[[LoadStep], None] = ...) -> None: ...

    def stream(self, submit: Submit) -> AnswerStream: ...

    async def tokenize(self, segments: tuple[Segment, ...]) -> tuple[Token, ...]: ...

    async def inspect(self) -> Inspection: ...

    async def report(self) -> Report: ...

    async def close(self) -> None: ...
