"""/v1/responses."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from edgekv.core.frames import Submit
from edgekv.core.request import Priority
from edgekv.server.bodies import body_of
from edgekv.server.errors import json_response
from edgekv.server.response_store import ResponseStore, StoredResponse
from edgekv.server.response_writer import ResponseWriter
from edgekv.server.responses_request import ResponsesRequest
from edgekv.server.schema import parse
from edgekv.server.served import ServedModel, Timing, new_id
from edgekv.server.sse import NAMED_EVENTS, EventStream, while_connected
from edgekv.service.messages import Message


class Responses:
    def __init__(self, model: ServedModel) -> None:
        self._model = model
        self._store = ResponseStore()

    def routes(self) -> list[Route]:
        return [
            Route("/v1/responses", self.create, methods=["POST"]),
            Route("/v1/responses/{id}", self.retrieve),
            Route("/v1/responses/{id}", self.delete, methods=["DELETE"]),
        ]

    async def create(self, request: Request) -> Response:
        arrived = time.monotonic()
        asked = parse(await body_of(request), ResponsesRequest)
        timing = Timing(arrived, asked.deadline_ms)
        facts = self._model.checked(asked.model)
        conversation = (*self._store.before(asked.previous_response_id), *asked.said())
        instructions = [Message("system", asked.instructions)] if asked.instructions else []
        grammar = asked.grammar()
        talk = await self._model.talk(
            [*instructions, *conversation],
            asked.tool_use(),
            None if grammar is None else ("text.format", grammar),
            asked.reasoning.effort if asked.reasoning else None,
        )
        submit = Submit(
            request_id=new_id(),
            prompt=talk.prompt,
            max_tokens=asked.max_output_tokens,
            sampling=talk.held(asked.sampling(facts.num_vocab)),
            priority=asked.priority or Priority.NORMAL,
            shows_controls=talk.shows_controls,
        )

        def keep(response: dict[str, Any], answer: Message) -> None:
            if asked.store is not False:
                self._store.put(response, (*conversation, answer))

        turn = self._model.turn(submit, talk.reads(), timing, one_call=talk.one_call)
        writer = ResponseWriter(_base(asked, submit.request_id, self._model.name), keep)
        if asked.stream:
            return EventStream(writer.events(turn), self._model.count, NAMED_EVENTS)
        return json_response(await while_connected(request.receive, writer.whole(turn)))

    async def retrieve(self, request: Request) -> Response:
        return json_response(self._stored(request).response)

    async def delete(self, request: Request) -> Response:
        response_id = self._stored(request).response["id"]
        self._store.remove(response_id)
        return json_response({"id": response_id, "object": "response", "deleted": True})

    def _stored(self, request: Request) -> StoredResponse:
        stored = self._store.get(request.path_params["id"])
        if stored is None:
            raise HTTPException(404, "There is no response of this id, or not any more.")
        return stored


def _base(asked: ResponsesRequest, response_id: str, model: str) -> dict[str, Any]:
    """What a response repeats of its request."""
    form = asked.text.format if asked.text and asked.text.format else {"type": "text"}
    return {
        "id": f"resp_{response_id}",
        "model": model,
        "instructions": asked.instructions,
        "max_output_tokens": asked.max_output_tokens,
        "previous_response_id": asked.previous_response_id,
        "store": asked.store is not False,
        "temperature": asked.temperature,
        "top_p": asked.top_p,
        "tools": msgspec.to_builtins(asked.tools or []),
        "tool_choice": msgspec.to_builtins(asked.tool_choice or "auto"),
        "parallel_tool_calls": asked.parallel_tool_calls is not False,
        "text": {"format": msgspec.to_builtins(form)},
        "metadata": {},
    }
