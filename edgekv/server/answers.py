"""Answers in OpenAI's shapes, whole or in chunks; `n` of them are choices of one answer."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from edgekv.core.events import Started
from edgekv.errors import PromptTooLong
from edgekv.server.turn import Ended, Spoken, TurnEvent, side_by_side


class CachedTokens(msgspec.Struct, frozen=True):
    cached_tokens: int


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens


class Answer(msgspec.Struct, frozen=True):
    """A whole answer or one chunk of it; `usage` is left out where nobody asked for it."""

    id: str
    object: str
    created: int
    model: str
    choices: tuple[Any, ...]
    usage: Usage | UnsetType | None = UNSET


class ChoiceWriter(Protocol):
    """Writes one choice: as a whole, or what its chunks hold."""

    def whole(self, spoken: Sequence[Spoken], ended: Ended) -> object: ...

    def opening(self) -> object | None:
        """What a stream says before any text."""

    def piece(self, spoken: Spoken) -> object: ...

    def ending(self, ended: Ended) -> object: ...


class Shape(Protocol):
    """How one endpoint writes answers."""

    prompt_field: str
    id_prefix: str
    whole_object: str
    chunk_object: str

    def choice(self, index: int) -> ChoiceWriter: ...


class Tally:
    """What an answer cost. Choices with one prompt share its tokens."""

    def __init__(self, choices_per_prompt: int = 1) -> None:
        self._per_prompt = choices_per_prompt
        self._started: dict[int, Started] = {}
        self._num_generated = 0

    def note(self, index: int, event: TurnEvent) -> None:
        if isinstance(event, Started):
            # Later choices find what the first of them has computed.
            self._started.setdefault(index // self._per_prompt, event)
        elif isinstance(event, Ended):
            self._num_generated += event.num_tokens

    @property
    def usage(self) -> Usage:
        started, answer = self._started.values(), self._num_generated
        prompt = sum(event.num_prompt for event in started)
        reused = sum(event.num_reused for event in started)
        return Usage(prompt, answer, prompt + answer, CachedTokens(reused))


class AnswerWriter:
    """One request's answer, whose choices are `turns`."""

    def __init__(
        self,
        shape: Shape,
        answer_id: str,
        model: str,
        turns: Sequence[AsyncGenerator[TurnEvent]],
        choices_per_prompt: int = 1,
    ) -> None:
        self._shape, self._model = shape, model
        self._id = shape.id_prefix + answer_id
        self._created = int(time.time())
        self._events = side_by_side(turns)
        self._tally = Tally(choices_per_prompt)
        self._writers = [shape.choice(index) for index in range(len(turns))]

    async def whole(self) -> Answer:
        spoken: list[list[Spoken]] = [[] for _ in self._writers]
        ends: dict[int, Ended] = {}
        async for index, event in self._read():
            if isinstance(event, Spoken):
                spoken[index].append(event)
            elif isinstance(event, Ended):
                ends[index] = event
        choices = tuple(w.whole(spoken[i], ends[i]) for i, w in enumerate(self._writers))
        return self._answer(self._shape.whole_object, choices, self._tally.usage)

    async def chunks(self, *, wants_usage: bool) -> AsyncGenerator[Answer]:
        """As OpenAI does: `usage` is null in all chunks but an extra last one, or in none."""
        usage = None if wants_usage else UNSET
        async with aclosing(self._read()) as events:
            async for index, event in events:
                choice = self._part(self._writers[index], event)
                if choice is not None:
                    yield self._answer(self._shape.chunk_object, (choice,), usage)
        if wants_usage:
            yield self._answer(self._shape.chunk_object, (), self._tally.usage)

    def _part(self, writer: ChoiceWriter, event: TurnEvent) -> object | None:
        match event:
            case Started():
                return writer.opening()
            case Spoken():
                return writer.piece(event)
            case Ended():
                return writer.ending(event)

    async def _read(self) -> AsyncGenerator[tuple[int, TurnEvent]]:
        with blaming(self._shape.prompt_field):
            async with aclosing(self._events):
                async for index, event in self._events:
                    self._tally.note(index, event)
                    yield index, event

    def _answer(
        self, kind: str, choices: tuple[object, ...], usage: Usage | UnsetType | None
    ) -> Answer:
        return Answer(self._id, kind, self._created, self._model, choices, usage)


@contextmanager
def blaming(prompt_field: str) -> Iterator[None]:
    """A prompt that is too long is said of the field that it came in."""
    try:
        yield
    except PromptTooLong as error:
        error.param = prompt_field
        raise
