"""One answer as it comes: words, thoughts and calls, with how likely their tokens were."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Literal, TypeAlias, TypeVar

import msgspec

from edgekv.core.events import AnswerStream, Delta, Finished, FinishReason, Started, TokenLogprob
from edgekv.errors import EdgeKVError, NotReady
from edgekv.service.pieces import AnswerReader, Called, Piece

EndOfTurn: TypeAlias = Literal["stop", "length", "tool_calls"]

T = TypeVar("T")


class Spoken(msgspec.Struct, frozen=True):
    pieces: tuple[Piece, ...]
    logprobs: tuple[TokenLogprob, ...] = ()
    """Of all tokens since the last `Spoken`, those that are in no piece included."""


class Ended(msgspec.Struct, frozen=True):
    reason: EndOfTurn
    num_tokens: int
    stop: str | None = None
    """The stop string that was met, if one was."""


TurnEvent: TypeAlias = Started | Spoken | Ended


async def turn(
    events: AnswerStream, reader: AnswerReader, *, one_call: bool = False
) -> AsyncGenerator[TurnEvent]:
    """`Started`, `Spoken` …, `Ended`. With `one_call` the answer ends behind its first call."""
    has_called = False
    held: list[TokenLogprob] = []
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Started):
                yield event
                continue
            pieces = _read(event, reader)
            if one_call:
                pieces = _up_to_call(pieces)
            if isinstance(event, Delta):
                held += event.logprobs
            if pieces:
                has_called = has_called or any(isinstance(piece, Called) for piece in pieces)
                yield Spoken(tuple(pieces), tuple(held))
                held = []
            if isinstance(event, Finished):
                yield Ended(_reason(event, has_called), event.num_generated, event.stop)
            elif one_call and has_called:
                yield Ended("tool_calls", event.num_tokens)
                return


def _read(event: Delta | Finished, reader: AnswerReader) -> list[Piece]:
    if isinstance(event, Delta):
        return reader.feed(event.text)
    return reader.finish(is_cut=event.reason is FinishReason.LENGTH)


def _up_to_call(pieces: list[Piece]) -> list[Piece]:
    calls = [at for at, piece in enumerate(pieces) if isinstance(piece, Called)]
    return pieces[: calls[0] + 1] if calls else pieces


def _reason(finished: Finished, has_called: bool) -> EndOfTurn:
    if finished.reason is FinishReason.CANCELLED:
        raise NotReady("The model was closed before the answer was complete; send it again.")
    if finished.reason is FinishReason.LENGTH:
        return "length"
    return "tool_calls" if has_called else "stop"


def side_by_side(streams: Sequence[AsyncGenerator[T]]) -> AsyncGenerator[tuple[int, T]]:
    """What all of them say, with the place of who says it. An error of one ends all."""
    return _together(streams) if len(streams) > 1 else _alone(streams[0])


async def _alone(stream: AsyncGenerator[T]) -> AsyncGenerator[tuple[int, T]]:
    async with aclosing(stream):
        async for event in stream:
            yield 0, event


async def _together(streams: Sequence[AsyncGenerator[T]]) -> AsyncGenerator[tuple[int, T]]:
    # With room for one, so that who lags here is seen to lag where the answers come from.
    queue: asyncio.Queue[tuple[int, T] | EdgeKVError | None] = asyncio.Queue(1)

    async def pump(place: int, stream: AsyncGenerator[T]) -> None:
        try:
            async with aclosing(stream):
                async for event in stream:
                    await queue.put((place, event))
            await queue.put(None)
        except EdgeKVError as error:
            await queue.put(error)

    pumps = [asyncio.create_task(pump(i, stream)) for i, stream in enumerate(streams)]
    num_running = len(pumps)
    try:
        while num_running:
            item = await queue.get()
            if item is None:
                num_running -= 1
            elif isinstance(item, EdgeKVError):
                raise item
            else:
                yield item
    finally:
        for task in pumps:
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
