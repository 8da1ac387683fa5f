"""Writes down the requests of a server while it answers them: lengths, times, blocks, no text."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias, TypeVar

import msgspec

from edgekv.core.events import Delta, Finished, FinishReason, Started, StreamEvent
from edgekv.core.frames import Submit
from edgekv.core.request import Prompt, Segment, TextPrompt, Token
from edgekv.errors import EdgeKVError, Unavailable
from edgekv.traffic.blocks import BLOCK_TOKENS, block_ids
from edgekv.traffic.trace import Row

_log = logging.getLogger(__name__)

Event = TypeVar("Event", bound=StreamEvent)
Tokenise: TypeAlias = Callable[[tuple[Segment, ...]], Awaitable[tuple[Token, ...]]]


@dataclass(slots=True)
class _Seen:
    """What is known of a request so far. Moments are of the recorder's clock."""

    arrived: float
    num_prompt: int = 0
    num_reused: int | None = None
    num_answer: int = 0
    first_token: float | None = None
    outcome: str = FinishReason.CANCELLED.value


class Recorder:
    """Appends a line to a file for each request that ended."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises `Unavailable` if the file cannot be written."""
        try:
            self._file: BinaryIO | None = path.open("ab", buffering=0)
        except OSError as error:
            raise Unavailable(f"Nothing can be recorded in {path}: {error.strerror}.") from None
        path.chmod(0o600)
        self._path, self._clock = path, clock
        self._salt = secrets.token_bytes(32)
        self._start = clock()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    async def watch(
        self, submit: Submit, events: AsyncGenerator[Event], tokenise: Tokenise
    ) -> AsyncGenerator[Event]:
        """The same events. However they end, the request is written down."""
        seen = _Seen(self._clock())
        try:
            async for event in events:
                self._hear(seen, event)
                yield event
        except EdgeKVError as error:
            seen.outcome = error.code
            raise
        finally:
            await events.aclose()
            await self._write(submit, seen, tokenise)

    def _hear(self, seen: _Seen, event: StreamEvent) -> None:
        match event:
            case Started(_, num_prompt, num_reused):
                seen.num_prompt, seen.num_reused = num_prompt, num_reused
            case Delta(num_tokens=num_tokens):
                seen.num_answer = num_tokens
                if seen.first_token is None:
                    seen.first_token = self._clock()
            case Finished(reason=reason, num_generated=num_generated):
                seen.num_answer = num_generated
                seen.outcome = "finished" if reason is not FinishReason.CANCELLED else reason.value

    async def _write(self, submit: Submit, seen: _Seen, tokenise: Tokenise) -> None:
        if self._file is None:
            return
        ended = self._clock()
        try:
            tokens = await _tokens(submit.prompt, tokenise)
        except EdgeKVError as error:
            _log.warning("a request is not recorded: %s", error)
            return
        row = Row(
            timestamp=_milliseconds(seen.arrived - self._start),
            input_length=len(tokens),
            output_length=seen.num_answer,
            hash_ids=block_ids(tokens, self._salt),
            block_tokens=BLOCK_TOKENS,
            outcome=seen.outcome,
            priority=submit.priority,
            max_tokens=submit.max_tokens,
            reused=seen.num_reused,
            first_token_ms=_since(seen.first_token, seen.arrived),
            total_ms=_milliseconds(ended - seen.arrived),
        )
        try:
            self._file.write(msgspec.json.encode(row) + b"\n")
        except OSError as error:
            _log.warning("recording in %s ends: %s", self._path, error.strerror)
            self.close()


async def _tokens(prompt: Prompt, tokenise: Tokenise) -> tuple[Token, ...]:
    return await tokenise(prompt.segments) if isinstance(prompt, TextPrompt) else prompt.tokens


def _milliseconds(seconds: float) -> float:
    return round(1000 * seconds, 1)


def _since(moment: float | None, start: float) -> float | None:
    return None if moment is None else _milliseconds(moment - start)
