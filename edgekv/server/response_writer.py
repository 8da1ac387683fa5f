"""One answer as OpenAI's Responses API tells it: events about items, and the items in the end."""

from __future__ import annotations

import itertools
import json
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import Any

from edgekv.core.events import Started
from edgekv.server.answers import Tally, blaming
from edgekv.server.turn import Ended, Spoken, TurnEvent
from edgekv.service.messages import Message, ToolCall
from edgekv.service.pieces import Called, Piece, Said, Thought

Event = dict[str, Any]


class ResponseWriter:
    """`base` is what the request says of the response. `on_end` hears of a complete one."""

    def __init__(self, base: Event, on_end: Callable[[Event, Message], None]) -> None:
        self._response = {
            **base,
            "object": "response",
            "created_at": int(time.time()),
            "error": None,
            "incomplete_details": None,
            "usage": None,
        }
        self._on_end = on_end
        self._items: list[Event] = []
        self._open_text: str | None = None
        """Of the last item, if more may be added to it."""
        self._numbers = itertools.count()
        self._tally = Tally()

    async def whole(self, turn: AsyncGenerator[TurnEvent]) -> Event:
        async for event in self.events(turn):
            last = event
        response: Event = last["response"]
        return response

    async def events(self, turn: AsyncGenerator[TurnEvent]) -> AsyncGenerator[Event]:
        with blaming("input"):
            async with aclosing(turn):
                async for event in turn:
                    self._tally.note(0, event)
                    for told in self._tell(event):
                        yield {**told, "sequence_number": next(self._numbers)}

    def _tell(self, event: TurnEvent) -> Iterator[Event]:
        match event:
            case Started():
                response = {**self._response, "status": "in_progress", "output": []}
                yield {"type": "response.created", "response": response}
                yield {"type": "response.in_progress", "response": response}
            case Spoken():
                for piece in event.pieces:
                    yield from self._write(piece)
            case Ended():
                yield from self._close()
                yield self._end(event)

    def _write(self, piece: Piece) -> Iterator[Event]:
        match piece:
            case Said():
                if self._open_text is None or self._items[-1]["type"] != "message":
                    yield from self._open_message()
                yield self._part("response.output_text.delta", delta=piece.text, logprobs=[])
                self._open_text = (self._open_text or "") + piece.text
            case Thought():
                if self._open_text is None or self._items[-1]["type"] != "reasoning":
                    yield from self._close()
                    yield self._add({**_item("reasoning", "rs"), "summary": [], "content": []})
                yield self._part("response.reasoning_text.delta", delta=piece.text)
                self._open_text = (self._open_text or "") + piece.text
            case Called():
                yield from self._close()
                yield from self._call(piece)

    def _open_message(self) -> Iterator[Event]:
        yield from self._close()
        yield self._add({**_item("message", "msg"), "role": "assistant", "content": []})
        yield self._part("response.content_part.added", part=_output_text(""))

    def _close(self) -> Iterator[Event]:
        """Complete the last item."""
        if self._open_text is None:
            return
        text, self._open_text = self._open_text, None
        item = self._items[-1]
        if item["type"] == "message":
            part = _output_text(text)
            yield self._part("response.output_text.done", text=text, logprobs=[])
            yield self._part("response.content_part.done", part=part)
        else:
            part = {"type": "reasoning_text", "text": text}
            yield self._part("response.reasoning_text.done", text=text)
        yield self._done({**item, "content": [part]})

    def _call(self, called: Called) -> Iterator[Event]:
        item = {
            **_item("function_call", "fc"),
            "call_id": f"call_{uuid.uuid4().hex[:24]}",
            "name": called.name,
        }
        yield self._add({**item, "arguments": ""})
        self._open_text = None
        place = {"item_id": item["id"], "output_index": len(self._items) - 1}
        kind = "response.function_call_arguments"
        yield {"type": f"{kind}.delta", **place, "delta": called.arguments}
        yield {
            "type": f"{kind}.done",
            **place,
            "name": called.name,
            "arguments": called.arguments,
        }
        yield self._done({**item, "arguments": called.arguments})

    def _add(self, item: Event) -> Event:
        self._items.append(item)
        self._open_text = ""
        index = len(self._items) - 1
        return {"type": "response.output_item.added", "output_index": index, "item": item}

    def _done(self, item: Event) -> Event:
        item = self._items[-1] = {**item, "status": "completed"}
        index = len(self._items) - 1
        return {"type": "response.output_item.done", "output_index": index, "item": item}

    def _part(self, kind: str, **fields: Any) -> Event:
        place = {"item_id": self._items[-1]["id"], "output_index": len(self._items) - 1}
        return {"type": kind, **place, "content_index": 0, **fields}

    def _end(self, ended: Ended) -> Event:
        is_cut = ended.reason == "length"
        usage = self._tally.usage
        status = "incomplete" if is_cut else "completed"
        response = {
            **self._response,
            "status": status,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "output": self._items,
            "usage": {
                "input_tokens": usage.prompt_tokens,
                "input_tokens_details": {
                    "cached_tokens": usage.prompt_tokens_details.cached_tokens
                },
                "output_tokens": usage.completion_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": usage.total_tokens,
            },
        }
        self._on_end(response, _message(self._items))
        return {"type": f"response.{status}", "response": response}


def _item(kind: str, prefix: str) -> Event:
    return {"id": f"{prefix}_{uuid.uuid4().hex}", "type": kind, "status": "in_progress"}


def _output_text(text: str) -> Event:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _message(items: list[Event]) -> Message:
    """The answer as a later prompt shows it."""

    def texts(kind: str) -> str:
        return "".join(item["content"][0]["text"] for item in items if item["type"] == kind)

    calls = tuple(
        ToolCall(item["call_id"], item["name"], json.loads(item["arguments"]))
        for item in items
        if item["type"] == "function_call"
    )
    return Message("assistant", texts("message"), tool_calls=calls, thought=texts("reasoning"))
