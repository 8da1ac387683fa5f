"""A conversation as a value, and its next answer as a stream.

Screens and line mode share this; nothing here knows how an answer is drawn.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Protocol

from edgekv.core.events import AnswerEvent, Delta, Finished, FinishReason, Started
from edgekv.core.frames import Submit
from edgekv.core.inspection import PromptStart
from edgekv.core.plan import ModelFacts
from edgekv.core.request import Priority, RequestId, SamplingParams, TextPrompt
from edgekv.service.chat import ChatFormat
from edgekv.service.host import ModelHost
from edgekv.service.messages import Message
from edgekv.service.pieces import AnswerReader, Called, Piece, Said, Thought
from edgekv.service.states import LoadStep


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages, oldest first, with their exact text."""

    messages: tuple[Message, ...] = ()

    def ask(self, question: str) -> Conversation:
        return Conversation((*self.messages, Message("user", question)))

    def reply(self, answer: str) -> Conversation:
        return Conversation((*self.messages, Message("assistant", answer)))

    @property
    def last_answer(self) -> str | None:
        answers = [m.content for m in self.messages if m.role == "assistant"]
        return answers[-1] if answers else None


@dataclass(frozen=True, slots=True)
class AnswerStats:
    """An answer so far, in tokens and in seconds since it was asked for."""

    num_prompt: int = 0
    num_reused: int = 0
    """Prompt tokens that needed no computing."""
    num_generated: int = 0
    seconds: float = 0.0
    first: tuple[int, float] | None = None
    """How many tokens the first piece of text took, and when it was there."""
    reason: FinishReason | None = None
    """None while the answer is being written."""

    @property
    def num_held(self) -> int:
        """Tokens of the context length that the conversation takes up."""
        return self.num_prompt + self.num_generated

    @property
    def first_token_seconds(self) -> float | None:
        return self.first[1] if self.first else None

    @property
    def tokens_per_second(self) -> float | None:
        """Decoding speed: what came after the first text, over the time it took."""
        if self.first is None or self.num_generated <= self.first[0]:
            return None
        elapsed = self.seconds - self.first[1]
        return (self.num_generated - self.first[0]) / elapsed if elapsed > 0 else None

    def after(self, event: AnswerEvent, seconds: float) -> AnswerStats:
        """The stats once `event` has arrived, `seconds` after the question."""
        match event:
            case Started():
                return replace(self, num_prompt=event.num_prompt, num_reused=event.num_reused)
            case Delta():
                first = self.first or (event.num_tokens, seconds)
                return replace(self, num_generated=event.num_tokens, seconds=seconds, first=first)
            case Finished():
                # Time without new tokens (the engine noticing a stop string) is not decoding.
                return replace(self, num_generated=event.num_generated, reason=event.reason)


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """What to append, maybe nothing, and the answer's stats from then on."""

    text: str
    """Words for the user."""
    stats: AnswerStats
    thought: str = ""
    """What the model thinks before it speaks."""
    calls: tuple[Called, ...] = ()


USUAL_SAMPLING = SamplingParams()


@dataclass(frozen=True, slots=True)
class Habits:
    """What holds for every answer, unless its conversation says otherwise."""

    system: str | None = None
    """What the model is told before all else, where a conversation does not tell it."""
    sampling: SamplingParams = USUAL_SAMPLING


NO_HABITS = Habits()


class PromptFormat(Protocol):
    """Writes messages as the model wants to read them, and reads what it answers; `ChatFormat`
    in a running program.
    """

    @property
    def shows_controls(self) -> bool: ...

    async def prompt(self, messages: Sequence[Message]) -> TextPrompt: ...

    def reader(self, prompt: TextPrompt) -> AnswerReader: ...

    async def close(self) -> None: ...


class ChatModel:
    """Whoever holds a model and the chat format of its model: what a conversation talks to."""

    def __init__(
        self,
        worker: ModelHost,
        format_of: Callable[[ModelFacts], PromptFormat] = ChatFormat,
        clock: Callable[[], float] = time.perf_counter,
        habits: Habits = NO_HABITS,
    ) -> None:
        self.worker, self._habits = worker, habits
        self._format_of, self._clock = format_of, clock
        self._format: PromptFormat | None = None
        self._last_request: RequestId | None = None

    async def start(self, on_progress: Callable[[LoadStep], None] = lambda _: None) -> None:
        """Plan and load. Raises what `Worker.start` raises."""
        await self.worker.start(on_progress)
        assert self.worker.facts is not None
        self._format = self._format_of(self.worker.facts)

    async def answer(
        self, conversation: Conversation, max_tokens: int | None = None
    ) -> AsyncGenerator[AnswerPart]:
        """The answer to the last message. The last part's stats have a `reason`.

        Raises the `EdgeKVError` of an answer that fails. Closing the generator early stops it.
        """
        asked = self._clock()
        prompt = await self._ready_format.prompt(self._told(conversation))
        reader = self._ready_format.reader(prompt)
        self._last_request = request_id = RequestId(uuid.uuid4().hex)
        submit = Submit(
            request_id,
            prompt,
            max_tokens=max_tokens,
            sampling=self._habits.sampling,
            # Somebody sits and waits for it.
            priority=Priority.INTERACTIVE,
            shows_controls=self._ready_format.shows_controls,
        )
        stats = AnswerStats()
        async with aclosing(self.worker.stream(submit)) as events:
            async for event in events:
                stats = stats.after(event, self._clock() - asked)
                match event:
                    case Delta():
                        yield _part(reader.feed(event.text), stats)
                    case Finished():
                        yield _part(reader.finish(), stats)
                    case Started():
                        yield AnswerPart("", stats)

    async def num_tokens(self, conversation: Conversation) -> int:
        """How many tokens a prompt for the next answer has."""
        prompt = await self._ready_format.prompt(self._told(conversation))
        return len(await self.worker.tokenize(prompt.segments))

    async def last_start(self) -> PromptStart | None:
        """What the last answer's prompt found; None if there was none or the engine forgot it."""
        starts = (await self.worker.inspect()).starts
        return next((start for start in starts if start.request_id == self._last_request), None)

    def _told(self, conversation: Conversation) -> Sequence[Message]:
        """The messages, behind the habitual word to the model if they have none of their own."""
        messages = conversation.messages
        if self._habits.system is None or any(m.role == "system" for m in messages):
            return messages
        return (Message("system", self._habits.system), *messages)

    @property
    def _ready_format(self) -> PromptFormat:
        assert self._format is not None, "start comes first"
        return self._format

    async def close(self) -> None:
        """End the processes behind it. Safe to call twice."""
        if self._format is not None:
            await self._format.close()
        await self.worker.close()


def _part(pieces: Sequence[Piece], stats: AnswerStats) -> AnswerPart:
    return AnswerPart(
        "".join(piece.text for piece in pieces if isinstance(piece, Said)),
        stats,
        "".join(piece.text for piece in pieces if isinstance(piece, Thought)),
        tuple(piece for piece in pieces if isinstance(piece, Called)),
    )
