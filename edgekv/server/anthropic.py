"""/v1/messages, for clients and agents that speak Anthropic's Messages API."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from edgekv.core.events import Started
from edgekv.core.frames import Submit
from edgekv.core.request import Priority
from edgekv.server.answers import blaming
from edgekv.server.anthropic_request import (
    CountRequest,
    MessagesRequest,
    conversation_of,
    grammar_of,
    thinks_in,
    use_of,
)
from edgekv.server.bodies import body_of
from edgekv.server.errors import json_response
from edgekv.server.schema import parse
from edgekv.server.served import ServedModel, Timing, new_id
from edgekv.server.sse import NAMED_EVENTS, EventStream, while_connected
from edgekv.server.turn import Ended, Spoken, TurnEvent
from edgekv.service.pieces import Called, Piece, Said, Thought

STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}

Event = dict[str, Any]


class Messages:
    def __init__(self, model: ServedModel) -> None:
        self._model = model

    def routes(self) -> list[Route]:
        return [
            Route("/v1/messages", self.create, methods=["POST"]),
            Route("/v1/messages/count_tokens", self.count, methods=["POST"]),
        ]

    async def create(self, request: Request) -> Response:
        arrived = time.monotonic()
        asked = parse(await body_of(request), MessagesRequest)
        timing = Timing(arrived, asked.deadline_ms)
        facts = self._model.checked(asked.model)
        grammar = grammar_of(asked)
        talk = await self._model.talk(
            conversation_of(asked),
            use_of(asked),
            None if grammar is None else ("output_config.format", grammar),
            thinks=thinks_in(asked),
        )
        submit = Submit(
            request_id=new_id(),
            prompt=talk.prompt,
            max_tokens=asked.max_tokens,
            sampling=talk.held(asked.sampling(facts.num_vocab)),
            stop=tuple(asked.stop_sequences or ()),
            priority=asked.priority or Priority.NORMAL,
            shows_controls=talk.shows_controls,
        )
        turn = self._model.turn(submit, talk.reads(), timing, one_call=talk.one_call)
        writer = MessageWriter(submit.request_id, self._model.name)
        if asked.stream:
            return EventStream(writer.events(turn), self._model.count, NAMED_EVENTS)
        return json_response(await while_connected(request.receive, writer.whole(turn)))

    async def count(self, request: Request) -> Response:
        asked = parse(await body_of(request), CountRequest)
        self._model.checked(asked.model)
        prompt = await self._model.prompt(
            conversation_of(asked),
            use_of(asked),
            thinks=thinks_in(asked),
            is_plain=grammar_of(asked) is not None,
        )
        tokens = await self._model.worker.tokenize(prompt.segments)
        return json_response({"input_tokens": len(tokens)})


class MessageWriter:
    """One answer as a message: blocks of text, of thoughts and of calls, one after the other."""

    def __init__(self, request_id: str, model: str) -> None:
        self._message: Event = {
            "id": f"msg_{request_id}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        }
        self._input: dict[str, int] = {}
        self._blocks: list[Event] = []
        self._is_open = False

    async def whole(self, turn: AsyncGenerator[TurnEvent]) -> Event:
        async for event in self.events(turn):
            if event["type"] == "message_delta":
                end = event
        return {
            **self._message,
            "content": self._blocks,
            **end["delta"],
            "usage": {**self._input, **end["usage"]},
        }

    async def events(self, turn: AsyncGenerator[TurnEvent]) -> AsyncGenerator[Event]:
        with blaming("messages"):
            async with aclosing(turn):
                async for event in turn:
                    for told in self._tell(event):
                        yield told

    def _tell(self, event: TurnEvent) -> Iterator[Event]:
        match event:
            case Started():
                self._input = {
                    "input_tokens": event.num_prompt - event.num_reused,
                    "cache_read_input_tokens": event.num_reused,
                    "cache_creation_input_tokens": 0,
                }
                usage = {**self._input, "output_tokens": 0}
                yield {"type": "message_start", "message": {**self._message, "usage": usage}}
            case Spoken():
                for piece in event.pieces:
                    yield from self._write(piece)
            case Ended():
                yield from self._close()
                delta = {"stop_reason": _stop_reason(event), "stop_sequence": event.stop}
                usage = {"output_tokens": event.num_tokens}
                yield {"type": "message_delta", "delta": delta, "usage": usage}
                yield {"type": "message_stop"}

    def _write(self, piece: Piece) -> Iterator[Event]:
        match piece:
            case Said():
                yield from self._extend("text", "text", piece.text)
            case Thought():
                yield from self._extend("thinking", "thinking", piece.text)
            case Called():
                yield from self._close()
                call = {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex[:24]}"}
                yield self._open({**call, "name": piece.name, "input": {}})
                yield self._delta({"type": "input_json_delta", "partial_json": piece.arguments})
                self._blocks[-1]["input"] = json.loads(piece.arguments)

    def _extend(self, kind: str, field: str, text: str) -> Iterator[Event]:
        if not self._is_open or self._blocks[-1]["type"] != kind:
            yield from self._close()
            signature = {"signature": ""} if kind == "thinking" else {}
            yield self._open({"type": kind, field: "", **signature})
        yield self._delta({"type": f"{field}_delta", field: text})
        self._blocks[-1][field] += text

    def _open(self, block: Event) -> Event:
        self._is_open = True
        self._blocks.append(dict(block))
        return {
            "type": "content_block_start",
            "index": len(self._blocks) - 1,
            "content_block": block,
        }

    def _delta(self, delta: Event) -> Event:
        return {"type": "content_block_delta", "index": len(self._blocks) - 1, "delta": delta}

    def _close(self) -> Iterator[Event]:
        if self._is_open:
            self._is_open = False
            yield {"type": "content_block_stop", "index": len(self._blocks) - 1}


def _stop_reason(ended: Ended) -> str:
    return STOP_REASONS[ended.reason] if ended.stop is None else "stop_sequence"
