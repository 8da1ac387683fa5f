"""Measures a machine with a model that nobody else uses: reading, reuse, writing side by side."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median

from edgekv.budget.wish import Wish
from edgekv.errors import DoesNotFit, InvalidValue, Unavailable
from edgekv.service.conduct import Conduct
from edgekv.service.host import ModelHost
from edgekv.service.measured import (
    SHORTEST,
    Measured,
    Reading,
    Reuse,
    Speed,
    Writing,
    counts,
    num_tokens_within,
    together,
)
from edgekv.service.random_requests import RandomRequests
from edgekv.service.stages import Stage
from edgekv.service.states import LoadStep
from edgekv.service.worker import Worker

MOST_SLOTS = 16
"""Answers at once where nobody says how many; fewer where memory is too short."""
CONTEXT = 1024
FEW, LONG_PROMPT, LONG_ANSWER = 16, 512, 128
"""Tokens: of a prompt where only what is written counts, and at most."""
ROUNDS = 3
"""Times a prompt is read; the one in the middle counts."""
GLANCE_PROMPT, GLANCE_ANSWER = 256, 48
"""Tokens: long enough to be even, and over in seconds on a small board."""

ALONE = Conduct(max_gap_ms=0, disk_cache_bytes=0)
"""Prompts of answers that are to be written together are read together, and nobody is spared for
the others. Copies of conversations would take time that is not the model's."""


async def open_to_measure(
    path: str, wish: Wish, on_progress: Callable[[LoadStep], None] = lambda _: None
) -> Worker:
    """The model with as many slots as there are to be measured, and no store.

    Raises as `Worker.start`, and `InvalidValue` for a context in which nothing can be measured.
    """
    if wish.context_length is not None and wish.context_length < 2 * FEW:
        raise InvalidValue(
            "context_length",
            f"--ctx {wish.context_length} is too short to measure anything; "
            f"take --ctx {2 * FEW} or more.",
        )
    slots = wish.slots or MOST_SLOTS
    while True:
        worker = Worker(path, sized(wish, slots), ALONE)
        try:
            await worker.start(on_progress)
        except DoesNotFit:
            if wish.slots or slots == 1:
                raise
            slots //= 2
        else:
            return worker


def sized(wish: Wish, slots: int) -> Wish:
    """What is left to the plan is just as large as the measurement needs."""
    context = wish.context_length or CONTEXT
    least = max(context, slots * (FEW + LONG_ANSWER))
    return replace(
        wish,
        slots=slots,
        context_length=context,
        cells=wish.cells or least,
        host_cache_bytes=wish.host_cache_bytes or 0,
    )


class Measurement:
    """Of an open model, within about so many `seconds`. `run` may be called once."""

    def __init__(
        self,
        host: ModelHost,
        seconds: float,
        on_stage: Callable[[Stage], None] = lambda _: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._requests, self._hear = RandomRequests(host, clock), on_stage
        assert host.plan is not None
        self._context_length = host.plan.choice.context_length
        self._counts = counts(host.plan.choice.slots)
        # Half of the time for prompts, half for answers; the first of each warms up.
        self._seconds_a_prompt = seconds / 2 / (ROUNDS + 1)
        self._seconds_a_row = seconds / 2 / len(self._counts)
        self._num_stages = 2 + len(self._counts)

    async def run(self) -> Measured:
        """Raises what `ModelHost.stream` raises, and `Unavailable` for answers that were never
        under way together.
        """
        self._tell(0, "warming up")
        for _ in range(2):  # the first one finds weights on disk, and threads asleep
            first = await self._requests.ask(self._requests.prompt(FEW), SHORTEST)
        self._tell(1, "reading prompts")
        reading, reuse = await self._read(FEW / first.first_seconds)
        rows: list[Writing] = []
        speed = first.tokens_per_second
        for number, at_once in enumerate(self._counts, start=2):
            self._tell(number, f"writing {at_once} at once")
            rows.append(await self._write(at_once, speed))
            # Twice as many answers may take twice as long for a step.
            speed = rows[-1].tokens_per_second / at_once / 2
        self._tell(self._num_stages, "")
        return Measured(reading, reuse, tuple(rows))

    def _tell(self, num_done: int, words: str) -> None:
        self._hear(Stage(num_done, self._num_stages, words))

    async def _read(self, speed: float) -> tuple[Reading, Reuse]:
        """`speed` is about how fast prompts are read, in tokens a second."""
        most = min(LONG_PROMPT, self._context_length // 2)
        length = min(most, num_tokens_within(self._seconds_a_prompt, speed, most))
        prompts = [self._requests.prompt(length) for _ in range(ROUNDS)]
        answers = [await self._requests.ask(prompt, 1) for prompt in prompts]
        seconds = median(answer.first_seconds for answer in answers)
        longer = prompts[-1] + self._requests.prompt(min(FEW, self._context_length - length - 1))
        again = await self._requests.ask(longer, 1)
        return Reading(length, length / seconds), Reuse(
            len(longer), again.num_reused, seconds, again.first_seconds
        )

    async def _write(self, at_once: int, speed: float) -> Writing:
        """`speed` is about how many tokens a second each answer gets."""
        most = min(LONG_ANSWER, self._context_length - FEW)
        length = min(most, num_tokens_within(self._seconds_a_row, speed, most))
        answers = await asyncio.gather(
            *(self._requests.ask(self._requests.prompt(FEW), length) for _ in range(at_once))
        )
        total = together([answer.progress for answer in answers])
        if total is None:
            raise Unavailable(
                f"{at_once} answers were never under way at the same time; "
                "allow more --cells or fewer --slots."
            )
        return Writing(at_once, total)


async def measure_speed(host: ModelHost, clock: Callable[[], float] = time.perf_counter) -> Speed:
    """A glance beside whatever else the model does: one prompt, and one answer to it.

    Raises `NotReady` while the model is loading, and what `ModelHost.stream` raises.
    """
    requests = RandomRequests(host, clock)
    assert host.plan is not None
    context_length = host.plan.choice.context_length
    num_read = min(GLANCE_PROMPT, context_length // 2)
    num_written = min(GLANCE_ANSWER, context_length - num_read)
    answer = await requests.ask(requests.prompt(num_read), num_written)
    writing = together([answer.progress])
    return Speed(num_read / answer.first_seconds, writing or 0.0, num_read, num_written)
