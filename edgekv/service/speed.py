"""How fast this machine reads and writes with the model that is open: a short measurement."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from edgekv.core.frames import Submit
from edgekv.core.request import RequestId, SamplingParams, Token, TokenPrompt
from edgekv.errors import NotReady
from edgekv.service.conversation import AnswerStats
from edgekv.service.host import ModelHost

NUM_PROMPT, NUM_GENERATED = 256, 48
"""Tokens: long enough to be even, and over in seconds on a small board."""


@dataclass(frozen=True, slots=True)
class Speed:
    """In tokens a second."""

    reading: float
    writing: float
    num_read: int
    num_written: int


async def measure_speed(host: ModelHost, clock: Callable[[], float] = time.perf_counter) -> Speed:
    """Read a prompt that nobody ever sent, and go on from it. Raises what `stream` raises."""
    if host.plan is None or host.facts is None:
        raise NotReady("The model is still loading; try again when it is there.")
    num_prompt = min(NUM_PROMPT, host.plan.choice.context_length // 2)
    # Random tokens: a text would be reused the second time.
    prompt = TokenPrompt(
        tuple(Token(random.randrange(host.facts.num_vocab // 2)) for _ in range(num_prompt))
    )
    submit = Submit(
        RequestId(uuid.uuid4().hex),
        prompt,
        max_tokens=min(NUM_GENERATED, host.plan.choice.context_length - num_prompt),
        sampling=SamplingParams(temperature=0.0),
        ignore_end=True,
    )
    began, stats = clock(), AnswerStats()
    async with aclosing(host.stream(submit)) as events:
        async for event in events:
            stats = stats.after(event, clock() - began)
    first = stats.first_token_seconds or stats.seconds
    return Speed(
        num_prompt / first if first else 0.0,
        stats.tokens_per_second or 0.0,
        num_prompt,
        stats.num_generated,
    )
