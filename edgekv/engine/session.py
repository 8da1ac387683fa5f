"""One open model: prompts in, pieces of text out.

Submit ─ tokenise ─▶ Engine ─ Sampled(token) ─▶ TextStream ─▶ Delta(text)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from edgekv.core.events import (
    Delta,
    EngineEvent,
    ErrorInfo,
    Failed,
    Finished,
    FinishReason,
    Sampled,
    StreamEvent,
)
from edgekv.core.frames import Snapshot, Submit
from edgekv.core.inspection import CacheView, PromptStart
from edgekv.core.look import EngineLook
from edgekv.core.plan import Choice, Opening
from edgekv.core.ports import Backend, Vocabulary
from edgekv.core.request import Grammar, Prompt, Request, RequestId, TextPrompt, Token
from edgekv.core.restraint import Restraint
from edgekv.engine.detokenizer import TextStream
from edgekv.engine.engine import Engine, Limits
from edgekv.engine.long_texts import check_prompt, check_text
from edgekv.engine.pinning import Pinning
from edgekv.engine.resizing import Freed, Resizing, with_room_for
from edgekv.engine.turns import branches
from edgekv.errors import InvalidValue, Overloaded, PromptTooLong, RequestError
from edgekv.kv.disk import Disk
from edgekv.kv.store import Store

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Answer:
    text: TextStream
    piece: Callable[[Token], bytes]
    num_tokens: int = 0
    untold: list[Sampled] = field(default_factory=list)
    """Tokens since the last `Delta`."""
    compiled: object | None = None
    """Keeps the request's grammar ready."""


class Session:
    def __init__(self, backend: Backend, vocabulary: Vocabulary, opening: Opening) -> None:
        choice = opening.choice
        self._backend, self._vocabulary = backend, vocabulary
        self._choice, self._shares = choice, opening.share_prefixes
        self._can_write = opening.can_write
        self._engine = Engine(
            backend,
            Limits(
                slots=choice.slots,
                context_length=choice.context_length,
                batch_tokens=choice.batch,
                max_waiting=opening.max_waiting,
                max_gap_seconds=opening.max_gap_ms / 1000,
            ),
            end_tokens=vocabulary.end_tokens,
            sharing=opening.share_prefixes,
            store=_open_store(opening, backend.state_key),
        )
        self._answers: dict[RequestId, _Answer] = {}
        self._pinning = Pinning(self._engine)

    @property
    def is_idle(self) -> bool:
        return self._engine.is_idle

    def submit(self, submit: Submit) -> list[StreamEvent]:
        """Queue a request; the events are its `Failed` if it can never be answered."""
        try:
            self._engine.submit(self._request(submit))
        except (RequestError, Overloaded) as error:
            return [Failed(submit.request_id, ErrorInfo.of(error))]
        self._answers[submit.request_id] = self._rebuilt(submit)
        return []

    def cancel(self, request_id: RequestId) -> list[StreamEvent]:
        return self._to_text(self._engine.cancel(request_id))

    def step(self) -> list[StreamEvent]:
        return self._to_text(self._engine.step())

    def took(self, seconds: float) -> None:
        """How long the last `step` took."""
        self._engine.took(seconds)

    def rest(self) -> bool:
        """While idle, do one piece of what can wait; False if there is nothing left to do."""
        return self._engine.rest()

    def pin(self, name: str, prompt: Prompt, *, compute: bool) -> None:
        """As `Pinning.pin`."""
        self._pinning.pin(name, self._prompt_tokens(prompt), compute=compute)

    def inspect(self) -> tuple[int, CacheView, tuple[PromptStart, ...]]:
        """How many cells there are, who holds them, and what the last prompts found."""
        starts = tuple(map(self._with_text, self._engine.starts))
        return self._backend.num_cells, self._engine.view(), starts

    def look(self) -> EngineLook:
        return self._engine.look()

    def snapshot(self) -> Snapshot:
        return self._engine.snapshot()

    def tokenize(self, prompt: TextPrompt) -> tuple[Token, ...]:
        """Raises `InvalidValue` for a text that would hold up everybody else."""
        check_text(prompt, self._choice.context_length)
        return tuple(self._vocabulary.tokenize(prompt.segments))

    def detokenize(self, tokens: tuple[Token, ...]) -> str:
        """Raises `InvalidValue` for an id that is not in the vocabulary."""
        self._check_ids(tokens)
        return b"".join(map(self._vocabulary.piece, tokens)).decode("utf-8", "replace")

    def compile(self, grammar: Grammar) -> None:
        """As `Backend.compile`: on any thread, and it raises what that raises."""
        self._backend.compile(grammar)

    def compiled(self, grammar: Grammar) -> object | None:
        """As `Backend.compiled`. Hold it while a request with this grammar is submitted."""
        return self._backend.compiled(grammar)

    def embed(self, tokens: tuple[Token, ...]) -> tuple[float, ...]:
        """As `Backend.embed`. Raises `InvalidValue` also for an id outside the vocabulary."""
        self._check_ids(tokens)
        return self._backend.embed(tokens)

    def restrain(self, restraint: Restraint) -> Freed:
        """Do without what memory is too short for, until told otherwise."""
        return self._engine.restrain(restraint)

    def resize(self, choice: Choice) -> Resizing:
        """Change to a pool of another size, but with room for all that requests were promised."""
        choice = with_room_for(self._engine.requests(), choice)
        if choice == self._choice:
            return Resizing(choice)
        num_carried = self._engine.leave_pool(choice)
        allocation = self._backend.resize(choice)
        self._engine.enter_pool(choice)
        self._choice = choice
        return Resizing(choice, allocation, num_carried)

    def close(self) -> list[StreamEvent]:
        """End every request as cancelled and give the memory back."""
        events = [e for request_id in list(self._answers) for e in self.cancel(request_id)]
        self._backend.close()
        return events

    def _with_text(self, start: PromptStart) -> PromptStart:
        """The same, with the words on both sides of where a prompt differed."""
        if start.miss is None or start.miss.difference is None:
            return start
        there = start.miss.difference
        words = replace(
            there,
            wanted_text=self.detokenize(there.wanted),
            found_text=self.detokenize(there.found),
        )
        return replace(start, miss=replace(start.miss, difference=words))

    def _request(self, submit: Submit) -> Request:
        if not self._can_write:
            raise InvalidValue(
                "model",
                "This model only gives vectors of texts; ask /v1/embeddings, or open another.",
            )
        if submit.ignore_end and submit.sampling.grammar is not None:
            raise InvalidValue(
                "ignore_eos", "An answer held to a format ends with it; leave out 'ignore_eos'."
            )
        prompt = self._prompt_tokens(submit.prompt)
        room = self._engine.context_length - len(prompt)
        if room < 1:
            raise PromptTooLong(len(prompt), self._engine.context_length)
        return Request(
            id=submit.request_id,
            prompt=prompt,
            max_tokens=room if submit.max_tokens is None else min(submit.max_tokens, room),
            sampling=submit.sampling,
            ignore_end=submit.ignore_end,
            generated=submit.generated,
            priority=submit.priority,
            branches=() if self._shares else branches(prompt, self._is_control),
        )

    def _is_control(self, token: Token) -> bool:
        return not self._vocabulary.piece(token)

    def _rebuilt(self, submit: Submit) -> _Answer:
        """An answer as it was when its last `Delta` was told."""
        piece = self._vocabulary.spelling if submit.shows_controls else self._vocabulary.piece
        text = TextStream(submit.stop)
        for token in submit.generated:
            text.push(piece(token))
        grammar = submit.sampling.grammar
        compiled = None if grammar is None else self.compiled(grammar)
        return _Answer(text, piece, num_tokens=len(submit.generated), compiled=compiled)

    def _prompt_tokens(self, prompt: Prompt) -> tuple[Token, ...]:
        if isinstance(prompt, TextPrompt):
            check_prompt(prompt, self._engine.context_length, self._vocabulary)
            tokens = tuple(self._vocabulary.tokenize(prompt.segments))
        else:
            tokens = prompt.tokens
            self._check_ids(tokens)
        if not tokens:
            raise InvalidValue("prompt", "The prompt is empty; send at least one token of text.")
        return tokens

    def _check_ids(self, tokens: tuple[Token, ...]) -> None:
        num_tokens = self._vocabulary.num_tokens
        for token in tokens:
            if not 0 <= token < num_tokens:
                raise InvalidValue(
                    "prompt", f"Token id {token} is not one of this model's 0 to {num_tokens - 1}."
                )

    def _to_text(self, events: list[EngineEvent]) -> list[StreamEvent]:
        return [told for event in events for told in self._tell(event)]

    def _tell(self, event: EngineEvent) -> list[StreamEvent]:
        """What the caller hears of an engine event."""
        if event.request_id not in self._answers:
            # Of a pinned prompt, or ended by a stop string earlier in this very step.
            self._pinning.hear(event)
            return []
        match event:
            case Sampled():
                return self._extend(event)
            case Finished():
                return self._close(event)
            case Failed(request_id):
                del self._answers[request_id]
                return [event]
            case _:
                return [event]

    def _close(self, event: Finished) -> list[StreamEvent]:
        answer = self._answers.pop(event.request_id)
        if answer.text.stopped:  # also where the stop string ends with the last token allowed
            event = replace(event, reason=FinishReason.STOP, stop=answer.text.stopped_by)
        return [*_delta(event.request_id, answer, answer.text.finish()), event]

    def _extend(self, event: Sampled) -> list[StreamEvent]:
        request_id = event.request_id
        answer = self._answers[request_id]
        answer.num_tokens += 1
        answer.untold.append(event)
        told = _delta(request_id, answer, answer.text.push(answer.piece(event.token)))
        if answer.text.stopped:
            told += self._to_text(self._engine.stop(request_id))
        return told


def _delta(request_id: RequestId, answer: _Answer, text: str) -> list[StreamEvent]:
    if not text:
        return []
    tokens = tuple(sampled.token for sampled in answer.untold)
    logprobs = tuple(s.logprob for s in answer.untold if s.logprob is not None)
    answer.untold = []
    return [Delta(request_id, text, answer.num_tokens, tokens, logprobs)]


def _open_store(opening: Opening, state_key: str) -> Store:
    """The store of an open model; without its disk if the folder cannot be used."""
    disk = None
    if opening.store_path is not None and opening.disk_cache_bytes:
        folder, limit_bytes = Path(opening.store_path), opening.disk_cache_bytes
        try:
            disk = Disk(folder, state_key, limit_bytes=limit_bytes)
        except OSError as error:
            logger.warning("nothing is stored in %s: %s", folder, error.strerror)
    return Store(host_limit_bytes=opening.choice.host_cache_bytes, disk=disk)
