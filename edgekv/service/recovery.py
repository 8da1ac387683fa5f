"""How requests in flight survive the engine's death.

Each goes on from the tokens its caller already has. Nobody knows which of them the engine died
of, so all are suspects:

    1st death   they start again one at a time, the next when one has shown a token
    2nd death   they run one at a time to their end, each once all others have ended
    a request that dies alone is the one: it fails, and the others go on

New requests wait in the same line while there are suspects, so that blame falls on the right one.
The first death that a request sees is never its own: an engine may be killed from outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from types import TracebackType

from msgspec.structs import replace

from edgekv.core.events import AnswerStream, Delta, Started
from edgekv.core.frames import Submit
from edgekv.core.request import RequestId, Token
from edgekv.errors import EngineDied
from edgekv.service.engine_client import Interrupted


class Recovery:
    """One for all requests of a worker."""

    def __init__(self) -> None:
        self._line = asyncio.Lock()
        self._under_way = _UnderWay()
        self._suspects: set[RequestId] = set()

    async def stream(
        self, submit: Submit, attempt: Callable[[Submit], AnswerStream]
    ) -> AnswerStream:
        """The events of one request over as many engines as it takes.

        `attempt` runs it on a living engine and raises `EngineDied` when that ends, or
        `Interrupted` when its model is opened in another way. Raises `EngineDied` for a request
        that the engine died of while it ran alone.
        """
        delivered: list[Token] = []
        is_started, num_deaths = False, 0
        try:
            while True:
                line = self._line if self._suspects else None
                turn = _Turn(line, self._under_way, to_the_end=num_deaths > 1)
                try:
                    async with (
                        turn,
                        aclosing(attempt(replace(submit, generated=tuple(delivered)))) as events,
                    ):
                        async for event in events:
                            if isinstance(event, Delta):
                                delivered += event.tokens
                                self._clear(submit.request_id, turn)
                            if not (is_started and isinstance(event, Started)):
                                yield event
                            is_started = True
                    return
                except Interrupted:
                    continue  # nobody's fault: it goes on in the model as it is opened next
                except EngineDied as death:
                    num_deaths += 1
                    self._suspects.add(submit.request_id)
                    if turn.ended_alone and num_deaths > 1:
                        raise EngineDied(
                            f"The engine ended {num_deaths} times while it worked on this request, "
                            "the last time on nothing else, so it is not tried again; "
                            "change the request or its options."
                        ) from death
        finally:
            self._suspects.discard(submit.request_id)

    def _clear(self, request_id: RequestId, turn: _Turn) -> None:
        if not turn.to_the_end:
            self._suspects.discard(request_id)
            turn.leave()


class _UnderWay:
    """How many requests are with the engine."""

    def __init__(self) -> None:
        self._num = 0
        self._none = asyncio.Event()
        self._none.set()

    @property
    def is_none(self) -> bool:
        return self._none.is_set()

    async def wait_for_none(self) -> None:
        await self._none.wait()

    def begin(self) -> None:
        self._num += 1
        self._none.clear()

    def end(self) -> None:
        self._num -= 1
        if not self._num:
            self._none.set()


class _Turn:
    """A place at the head of the line, or none where there is no line."""

    def __init__(
        self, line: asyncio.Lock | None, under_way: _UnderWay, *, to_the_end: bool
    ) -> None:
        self._line, self._under_way, self.to_the_end = line, under_way, to_the_end
        self._is_head = self._began_alone = False
        self.ended_alone = False
        """With an error, while nothing else was with the engine."""

    async def __aenter__(self) -> None:
        if self._line is not None:
            await self._line.acquire()
            self._is_head = True
        if self.to_the_end:
            try:
                await self._under_way.wait_for_none()
            except asyncio.CancelledError:
                self.leave()
                raise
        self._began_alone = self._under_way.is_none
        self._under_way.begin()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Who was suspected when this began kept all others in the line until now.
        self.ended_alone = self._is_head and self._began_alone and error is not None
        self._under_way.end()
        self.leave()

    def leave(self) -> None:
        if self._is_head and self._line is not None:
            self._is_head = False
            self._line.release()
