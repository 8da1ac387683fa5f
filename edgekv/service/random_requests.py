"""Requests of random tokens, timed as whoever asks for them sees it."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from edgekv.core.events import Delta, Finished, Started
from edgekv.core.frames import Submit
from edgekv.core.request import RequestId, SamplingParams, Token, TokenPrompt
from edgekv.errors import NotReady
from edgekv.service.host import ModelHost


@dataclass(frozen=True, slots=True)
class Timed:
    """One answer, by one clock."""

    num_prompt: int
    num_reused: int
    asked_at: float
    progress: tuple[tuple[float, int], ...]
    """When there were how many tokens of it, to the last one."""

    @property
    def first_seconds(self) -> float:
        return self.progress[0][0] - self.asked_at

    @property
    def num_computed(self) -> int:
        """Tokens of the prompt."""
        return self.num_prompt - self.num_reused

    @property
    def tokens_per_second(self) -> float:
        """Of the whole answer, the reading of its prompt included."""
        end, num_tokens = self.progress[-1]
        return num_tokens / (end - self.asked_at)


class RandomRequests:
    """Asks an open model what nobody ever sent, so nothing of it is known unless it is repeated."""

    def __init__(self, host: ModelHost, clock: Callable[[], float] = time.perf_counter) -> None:
        """Raises `NotReady` while the model is loading."""
        if host.plan is None or host.facts is None:
            raise NotReady("The model is still loading; try again when it is there.")
        self._host, self._clock = host, clock
        self._num_vocab = host.facts.num_vocab

    def prompt(self, length: int) -> tuple[Token, ...]:
        return tuple(Token(random.randrange(self._num_vocab // 2)) for _ in range(length))

    async def ask(self, prompt: tuple[Token, ...], max_tokens: int) -> Timed:
        """An answer of exactly so many tokens. Raises what `ModelHost.stream` raises."""
        submit = Submit(
            RequestId(uuid.uuid4().hex),
            TokenPrompt(prompt),
            max_tokens=max_tokens,
            sampling=SamplingParams(temperature=0.0),
            ignore_end=True,
        )
        asked_at, num_reused = self._clock(), 0
        progress: list[tuple[float, int]] = []
        async with aclosing(self._host.stream(submit)) as events:
            async for event in events:
                match event:
                    case Started():
                        num_reused = event.num_reused
                    case Delta():
                        progress.append((self._clock(), event.num_tokens))
                    case Finished():
                        # Tokens without visible text come with no Delta.
                        progress.append((self._clock(), event.num_generated))
        return Timed(len(prompt), num_reused, asked_at, tuple(progress))
