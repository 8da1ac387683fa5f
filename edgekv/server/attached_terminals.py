"""For terminal apps that use this server's model instead of loading it once more."""

from __future__ import annotations

import time
from contextlib import aclosing
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from edgekv.core.events import AnswerStream, ErrorInfo, Failed
from edgekv.core.frames import Submit
from edgekv.core.request import RequestId
from edgekv.errors import EdgeKVError, InvalidValue
from edgekv.server.bodies import body_of
from edgekv.server.errors import json_response
from edgekv.server.served import ServedModel
from edgekv.server.sse import EventStream, StreamForm, event
from edgekv.service.attach_frames import VERSION, Ask, Card, Split, SplitUp

T = TypeVar("T")


class AttachedTerminals:
    def __init__(self, model: ServedModel) -> None:
        self._model = model
        self._open: set[RequestId] = set()

    def routes(self) -> list[Route]:
        return [
            Route("/attach", self.card),
            Route("/attach/inspection", self.inspection),
            Route("/attach/tokens", self.tokens, methods=["POST"]),
            Route("/attach/stream", self.stream, methods=["POST"]),
        ]

    async def card(self, _: Request) -> Response:
        return json_response(Card(VERSION, self._model.name, self._model.facts))

    async def inspection(self, _: Request) -> Response:
        self._model.checked(None)
        return json_response(await self._model.worker.inspect())

    async def tokens(self, request: Request) -> Response:
        asked = _read(await body_of(request), Split)
        self._model.checked(None)
        return json_response(SplitUp(await self._model.worker.tokenize(asked.segments)))

    async def stream(self, request: Request) -> Response:
        arrived = time.monotonic()
        submit = _read(await body_of(request), Ask).submit()
        self._model.checked(None)
        if submit.request_id in self._open:
            raise InvalidValue("request_id", "This request is being answered; give another id.")

        def failure(error: EdgeKVError) -> bytes:
            return event(Failed(submit.request_id, ErrorInfo.of(error)))

        answer = self._answer(submit, arrived)
        return EventStream(answer, self._model.count, StreamForm(event, failure, b""))

    async def _answer(self, submit: Submit, arrived: float) -> AnswerStream:
        self._open.add(submit.request_id)
        events = self._model.metrics.watch(self._model.worker.stream(submit), arrived)
        try:
            async with aclosing(events):
                async for told in events:
                    yield told
        finally:
            self._open.discard(submit.request_id)


def _read(body: bytes, kind: type[T]) -> T:
    """Raises `InvalidValue` for what another version may say."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidValue("body", f"This is not what version {VERSION} says: {error}.") from None
