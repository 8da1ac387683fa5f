"""How fast this machine reads and writes with the model that is open: a short measurement."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from edgekv.core.events import Delta
from edgekv.core.frames import Submit
from edgekv.core.request import RequestId, SamplingParams, Token, TokenPrompt
from edgekv.errors import NotReady
from edgekv.service.conversation import AnswerStats
from edgekv.service.host import ModelHost

NUM_PROMPT, NUM_GENERATED = 256, 48
"""Tokens: long enough to be even, and over in seconds on a small board."""
FEW = 16
"""Tokens of a prompt where only what is written counts."""


@dataclass(frozen=True, slots=True)
class Speed:
    """In tokens a second."""

    reading: float
    writing: float
    num_read: int
    num_written: int


async def measure_together(
    host: ModelHost, num_answers: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Tokens a second of so many answers in all, while every one of them is written.

    Raises what `stream` raises, and `NotReady` if there is no slot for each.
    """
    if host.plan is None or host.facts is None or host.plan.choice.slots < num_answers:
        raise NotReady(f"There are no {num_answers} slots; open the model with more --slots.")
    moments = await asyncio.gather(*(_moments(host, clock) for _ in range(num_answers)))
    begin, end = max(m[0] for m in moments), min(m[-1] for m in moments)
    written = sum(begin < moment <= end for answer in moments for moment in answer)
    return written / (end - begin) if end > begin else 0.0


async def _moments(host: ModelHost, clock: Callable[[], float]) -> list[float]:
    """When each token of an answer came that begins with a few random tokens."""
    moments: list[float] = []
    async with aclosing(host.stream(_random_request(host, FEW, NUM_GENERATED))) as events:
        async for event in events:
            if isinstance(event, Delta):
                moments += [clock()] * (event.num_tokens - len(moments))
    return moments or [clock()]


async def measure_speed(host: ModelHost, clock: Callable[[], float] = time.perf_counter) -> Speed:
    """Read a prompt that nobody ever sent, and go on from it. Raises what `stream` raises."""
    if host.plan is None or host.facts is None:
        raise NotReady("The model is still loading; try again when it is there.")
    num_prompt = min(NUM_PROMPT, host.plan.choice.context_length // 2)
    submit = _random_request(
        host, num_prompt, min(NUM_GENERATED, host.plan.choice.context_length - num_prompt)
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


def _random_request(host: ModelHost, num_prompt: int, num_generated: int) -> Submit:
    assert host.facts is not None
    # Random tokens: a text would be reused the second time.
    prompt = (Token(random.randrange(host.facts.num_vocab // 2)) for _ in range(num_prompt))
    return Submit(
        RequestId(uuid.uuid4().hex),
        TokenPrompt(tuple(prompt)),
        max_tokens=num_generated,
        sampling=SamplingParams(temperature=0.0),
        ignore_end=True,
    )
