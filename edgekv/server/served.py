"""The one model behind the endpoints: who may ask for it, and how it is asked."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace
from starlette.exceptions import HTTPException

from edgekv.core.frames import Submit
from edgekv.core.plan import ModelFacts
from edgekv.core.request import Grammar, RequestId, SamplingParams, TextPrompt
from edgekv.errors import (
    DeadlineExceeded,
    EdgeKVError,
    InvalidValue,
    NotReady,
    Overloaded,
    RequestError,
    Unavailable,
    UnknownModel,
)
from edgekv.server.metrics import Metrics
from edgekv.server.tool_schema import ToolUse
from edgekv.server.turn import TurnEvent, turn
from edgekv.service.chat import ChatFormat
from edgekv.service.deadline import until
from edgekv.service.load_watch import LoadWatch
from edgekv.service.messages import Message
from edgekv.service.pieces import AnswerReader, PlainReader
from edgekv.service.states import State
from edgekv.service.tools import ForcedCallReader
from edgekv.service.worker import Worker

ANY_NAME = "local"
"""A client that does not care what the model is called may ask for this."""


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation ready to be answered."""

    prompt: TextPrompt
    reads: Callable[[], AnswerReader]
    """Makes a reader for one answer."""
    grammar: Grammar | None
    one_call: bool
    shows_controls: bool

    def held(self, sampling: SamplingParams) -> SamplingParams:
        """The same sampling, held to the answer's form."""
        return replace(sampling, grammar=self.grammar)


@dataclass(frozen=True, slots=True)
class Timing:
    """When a request arrived, by `time.monotonic()`, and how long it may take from then on."""

    arrived: float
    deadline_ms: int | None = None

    @property
    def seconds_left(self) -> float | None:
        if self.deadline_ms is None:
            return None
        return self.arrived + self.deadline_ms / 1000 - time.monotonic()


class ServedModel:
    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.load = LoadWatch(worker)
        self.metrics = Metrics(worker, self.load)
        self._chat_format: ChatFormat | None = None

    async def close(self) -> None:
        if self._chat_format is not None:
            await self._chat_format.close()

    @property
    def facts(self) -> ModelFacts:
        """Raises `NotReady` before the first load is done; a restart is the worker's affair."""
        if self.worker.state is State.CLOSED:
            raise NotReady("The server is stopping; send the request again later.")
        facts = self.worker.facts
        if facts is None or self.worker.allocation is None:
            raise NotReady("The model is still loading; try again in a moment.")
        return facts

    @property
    def name(self) -> str:
        """The file's: what a file says of itself is often shared by all sizes of a family."""
        # pathlib interns the parts of every path, and the table of such strings grows with them.
        return os.path.splitext(os.path.basename(self.facts.path))[0]

    def checked(self, asked: str | None) -> ModelFacts:
        """Raises `UnknownModel` for the name of another model."""
        facts = self.facts
        known = {self.name, os.path.basename(facts.path), facts.name, ANY_NAME}
        if asked is not None and asked not in known:
            raise UnknownModel(asked, self.name)
        return facts

    async def talk(
        self,
        messages: list[Message],
        use: ToolUse,
        words: tuple[str, Grammar] | None = None,
        effort: str | None = None,
        *,
        thinks: bool | None = None,
    ) -> Talk:
        """`words` is the grammar of the answer, and the field that it came in. The rest is as for
        `prompt`.
        """
        field, grammar = words or ("tools", use.grammar())
        if grammar is not None:
            await self._check_grammar(field, grammar)
        form = self._format
        prompt = await self.prompt(messages, use, effort, thinks=thinks, is_plain=words is not None)

        def reads() -> AnswerReader:
            if use.forced:
                return ForcedCallReader()
            return PlainReader() if words else form.reader(prompt, use.tools)

        return Talk(prompt, reads, grammar, use.one_call, form.shows_controls and grammar is None)

    async def prompt(
        self,
        messages: list[Message],
        use: ToolUse,
        effort: str | None = None,
        *,
        thinks: bool | None = None,
        is_plain: bool = False,
    ) -> TextPrompt:
        """`thinks` is for templates that can be told. No thoughts come before an answer of a given
        form, which is a forced call or `is_plain`.
        """
        options = self._options(effort, thinks, plain=is_plain or bool(use.forced))
        return await self._format.prompt(messages, use.tools, options)

    def turn(
        self,
        submit: Submit,
        reader: AnswerReader,
        timing: Timing,
        *,
        one_call: bool = False,
    ) -> AsyncGenerator[TurnEvent]:
        events = self.worker.stream(submit)
        if (seconds := timing.seconds_left) is not None:
            events = until(seconds, submit.request_id, events)
        return turn(self.metrics.watch(events, timing.arrived), reader, one_call=one_call)

    def count(self, error: EdgeKVError) -> None:
        if isinstance(error, DeadlineExceeded):
            self.metrics.count("expired")
            return
        is_refused = isinstance(error, RequestError | Overloaded | NotReady)
        self.metrics.count("refused" if is_refused else "failed")

    @property
    def _format(self) -> ChatFormat:
        if self._chat_format is None:
            self._chat_format = ChatFormat(self.facts)
        return self._chat_format

    def _options(self, effort: str | None, thinks: bool | None, *, plain: bool) -> dict[str, Any]:
        """The template's variables that say how much to think."""
        form = self._format
        options: dict[str, Any] = {}
        if plain:
            thinks = False
        elif effort is not None:
            thinks = effort != "none"
        if thinks is not None and form.knows("enable_thinking"):
            options["enable_thinking"] = thinks
        if form.knows("reasoning_effort") and effort is not None:
            options["reasoning_effort"] = effort
        if effort is not None and not options:
            raise InvalidValue(
                "reasoning_effort",
                "reasoning_effort: this model's chat template knows no such thing; leave it out.",
            )
        return options

    async def _check_grammar(self, field: str, grammar: Grammar) -> None:
        try:
            with self.lacking():
                await self.worker.check_grammar(grammar)
        except InvalidValue as error:
            raise InvalidValue(field, f"{field}: {error}") from None

    @contextmanager
    def lacking(self) -> Iterator[None]:
        """What this machine or model never has is a 501, not a reason to ask again."""
        try:
            yield
        except Unavailable as error:
            if self.worker.state is not State.READY:
                raise
            raise HTTPException(501, str(error)) from None


def new_id() -> RequestId:
    return RequestId(uuid.uuid4().hex)
