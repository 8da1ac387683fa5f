"""Measures what steps take on this machine: few and many tokens, alone and together, shallow and
deep, in a pool with little in it and one with much.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from edgekv.core.request import Token
from edgekv.service.host import ModelHost
from edgekv.service.measured import SHORTEST, counts, num_tokens_within, together
from edgekv.service.random_requests import RandomRequests, Timed
from edgekv.service.stages import Stage
from edgekv.traffic.step_time import FEW_TOKENS, NO_WORK, Piece, Work, work_of

SHORT, LONG_ANSWER = 16, 32
"""Tokens: of a prompt that hardly costs more than a step does, and of an answer at most."""
ROUNDS = 2
"""Times a prompt is read; the quicker one counts, for nothing makes a step quicker than it is."""
NUM_STAGES = 4
LEAST_DEPTH = 256
"""Tokens that a long prompt has, however long they take: what a cell costs to look at is told from
what many of them cost."""


class StepMeasurement:
    """Of an open model that nobody else uses, within about so many `seconds`.

    `run` may be called once.
    """

    def __init__(
        self,
        host: ModelHost,
        seconds: float,
        on_stage: Callable[[Stage], None] = lambda _: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Raises `NotReady` while the model is loading."""
        self._host, self._requests = host, RandomRequests(host, clock)
        assert host.plan is not None
        self._plan = host.plan
        self._longest_answer = min(LONG_ANSWER, host.plan.choice.context_length // 4)
        self._seconds_a_stage = seconds / NUM_STAGES
        self._hear = on_stage
        self._measured: list[tuple[Work, float]] = []

    async def run(self) -> tuple[tuple[Work, float], ...]:
        """Work, and the seconds it took. Raises what `ModelHost.stream` raises."""
        choice = self._plan.choice
        short = min(SHORT, choice.context_length // 4)
        self._tell(0, "warming up")
        for _ in range(2):  # the first one finds weights on disk, and threads asleep
            self._measured.clear()
            first = await self._write(
                [self._requests.prompt(short)], min(SHORTEST, self._longest_answer)
            )
        self._tell(1, "reading prompts")
        most = min(choice.batch, choice.context_length // 4)
        longest = self._within(1 / (2 * ROUNDS), short / first.first_seconds, most)
        longest = max(longest, min(FEW_TOKENS, most))
        lengths = [length for length in (short, FEW_TOKENS) if length < longest] + [longest]
        speed = longest / await self._read((), lengths)
        self._tell(2, "reading behind a long prompt")
        room = choice.context_length - longest - self._longest_answer
        depth = max(self._within(1 / 2, speed, room), min(LEAST_DEPTH, room))
        behind = self._requests.prompt(depth)
        await self._read(behind, lengths)
        writing = first.tokens_per_second
        await self._write([behind + self._requests.prompt(1)], self._within(1 / 4, writing))
        self._tell(3, "writing side by side")
        for at_once in counts(choice.slots):
            prompts = [self._requests.prompt(short) for _ in range(at_once)]
            await self._write(prompts, self._within(1 / 4, writing / at_once))
        self._tell(NUM_STAGES, "")
        return tuple(self._measured)

    def _within(self, part: float, speed: float, most: int | None = None) -> int:
        """Tokens that take such a part of a stage, at so many a second; at most an answer's, or
        as said.
        """
        most = self._longest_answer if most is None else most
        return min(most, num_tokens_within(part * self._seconds_a_stage, speed, most))

    async def _read(self, behind: tuple[Token, ...], lengths: Sequence[int]) -> float:
        """Read prompts of such lengths behind one that is read first, and learn from each; returns
        how long the last one took.
        """
        if behind:
            used = self._used
            answer = await self._requests.ask(behind, 1)
            self._measured.append((self._reading(answer, used), answer.first_seconds))
        seconds = 0.0
        for length in lengths:
            tries = []
            for _ in range(ROUNDS):
                used = self._used
                answer = await self._requests.ask(behind + self._requests.prompt(length), 1)
                tries.append((answer.first_seconds, self._reading(answer, used)))
            seconds, work = min(tries, key=lambda one: one[0])
            self._measured.append((work, seconds))
        return seconds

    def _reading(self, answer: Timed, used: int) -> Work:
        """What was done for a first token, from so many cells in use on."""
        choice, done, total = self._plan.choice, NO_WORK, answer.num_prompt
        for start in range(answer.num_reused, total, choice.batch):
            piece = Piece(start, min(choice.batch, total - start))
            used = min(used + piece.num_tokens, choice.cells)
            done += work_of([piece], used)
        return done

    async def _write(self, prompts: Sequence[tuple[Token, ...]], length: int) -> Timed:
        """Learn from a step in the middle of answers that are written side by side; returns the
        first of them.
        """
        answers = await asyncio.gather(*(self._requests.ask(p, length) for p in prompts))
        speed = together([answer.progress for answer in answers])
        if speed:
            pieces = [Piece(len(prompt) + length // 2, 1) for prompt in prompts]
            # Those that have ended are kept; in the middle of them half of their cells were there.
            used = self._used - len(prompts) * length // 2
            self._measured.append((work_of(pieces, max(1, used)), len(prompts) / speed))
        return answers[0]

    @property
    def _used(self) -> int:
        return self._host.snapshot.cells_used

    def _tell(self, num_done: int, words: str) -> None:
        self._hear(Stage(num_done, NUM_STAGES, words))
