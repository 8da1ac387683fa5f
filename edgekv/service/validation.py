"""The gate, run on a real model: KV types against f16, trial by trial.

An interrupted run goes on where it was: what each trial measured is kept beside the verdicts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

from edgekv.budget.kv_types import Pair
from edgekv.budget.wish import Wish
from edgekv.core.comparison import Compare, Compared, Likeness, OpenComparison, Passage
from edgekv.core.frames import Tokenize, Tokens
from edgekv.core.request import Segment, TextPrompt, Token
from edgekv.quality.gate import is_settled, objections
from edgekv.quality.measures import Measured, together
from edgekv.quality.passages import ask
from edgekv.quality.trials import QUICK_LENGTH, Trial, trials
from edgekv.quality.unfinished import Unfinished
from edgekv.quality.verdicts import Subject, Verdict, Verdicts
from edgekv.service.engine_client import EngineClient
from edgekv.service.lineup import BRANCH_TOKENS, Lineup, prepare
from edgekv.service.planning import subject_of
from edgekv.service.stages import Stage

LONGEST = 16_384
"""Tokens, unless more are asked for: on a laptop every doubling costs minutes."""

Hear: TypeAlias = Callable[[float], None]
"""Is told what part of a trial is measured."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a run of the gate covers."""

    pairs: tuple[Pair, ...]
    """KV types, each pair once. f16 itself shows what rounding alone does."""
    quick: bool = False
    longest: int = LONGEST
    """Tokens of the longest conversation, as far as the model and memory go."""
    every_length: bool = False
    """Read longer texts also for a type that a shorter one has refused for good."""

    @property
    def context(self) -> int:
        return min(self.longest, QUICK_LENGTH) if self.quick else self.longest


class Validation:
    """KV types on one model. `run` may be called once."""

    def __init__(self, path: str, wish: Wish, scope: Scope, verdicts: Verdicts) -> None:
        """Wishes for KV types are the scope's, not the wish's."""
        self._path, self._wish, self._scope, self._verdicts = path, wish, scope, verdicts
        self._unfinished = Unfinished(verdicts.folder / "unfinished")
        self._measured: dict[Pair, Measured] = {pair: Measured() for pair in scope.pairs}
        self._longest = dict.fromkeys(scope.pairs, 0)

    async def run(self, on_stage: Callable[[Stage], None]) -> tuple[Verdict, ...]:
        """Measure and judge, and keep the verdicts: one a pair, in the order of the scope.

        Raises `ModelError`, `DoesNotFit`, `EngineDied`, `Unavailable` if the contexts do not fit
        at once, and `OSError` if a verdict cannot be written.
        """
        on_stage(Stage(0, 0, "planning memory"))
        scope = self._scope
        lineup = await prepare(self._path, self._wish, scope.pairs, scope.context)
        subject = subject_of(lineup.ground.described)
        todo = trials(lineup.context - BRANCH_TOKENS, quick=scope.quick)
        async with _comparing(lineup) as comparing:
            for number, trial in enumerate(todo):
                stage = Stage(number, len(todo), f"{trial.length:,} tokens")
                await self._try(comparing, subject, trial, _teller(on_stage, stage))
        on_stage(Stage(0, 0, ""))
        name = lineup.ground.described.facts.name
        return tuple(self._judge(subject, name, pair) for pair in scope.pairs)

    async def _try(
        self, comparing: _Comparing, subject: Subject, trial: Trial, on_progress: Hear
    ) -> None:
        on_progress(0.0)
        missing: list[Pair] = []
        for pair, measured in self._measured.items():
            if is_settled(measured) and not self._scope.every_length:
                continue
            self._longest[pair] = trial.length + BRANCH_TOKENS
            if (before := self._unfinished.of(subject, pair, trial)) is None:
                missing.append(pair)
            else:
                self._measured[pair] = together((measured, before))
        if not missing:
            return
        asked = await ask(trial, comparing.tokenise)
        numbers = tuple(map(self._scope.pairs.index, missing))
        found = await comparing.compare(asked.passage, numbers, on_progress)
        for pair, likenesses in zip(missing, found, strict=True):
            measured = asked.measured(likenesses)
            self._unfinished.keep(subject, pair, trial, measured)
            self._measured[pair] = together((self._measured[pair], measured))

    def _judge(self, subject: Subject, model: str, pair: Pair) -> Verdict:
        measured = self._measured[pair]
        verdict = Verdict(
            *pair,
            self._scope.quick,
            objections(measured),
            self._longest[pair],
            measured,
            model,
            subject.computed_by,
        )
        self._verdicts.keep(subject, verdict)
        self._unfinished.drop(subject, pair)
        return verdict


class _Comparing:
    """The process that has a lineup open."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def tokenise(self, text: str) -> tuple[Token, ...]:
        prompt = TextPrompt((Segment(text, control=False),))
        reply = await self._client.call(lambda call: Tokenize(call, prompt))
        assert isinstance(reply, Tokens)
        return reply.tokens

    async def compare(
        self, passage: Passage, candidates: tuple[int, ...], on_progress: Hear
    ) -> tuple[tuple[Likeness, ...], ...]:
        reply = await self._client.call(
            lambda call: Compare(call, passage, candidates), on_progress
        )
        assert isinstance(reply, Compared)
        return reply.candidates


@asynccontextmanager
async def _comparing(lineup: Lineup) -> AsyncIterator[_Comparing]:
    client = await EngineClient.start(command="comparison", workers=lineup.ground.workers)
    try:
        await client.call(lambda call: OpenComparison(call, lineup.reference, lineup.candidates))
        yield _Comparing(client)
    finally:
        await client.close()


def _teller(on_stage: Callable[[Stage], None], stage: Stage) -> Hear:
    return lambda part: on_stage(replace(stage, words=f"{stage.words}, {part:.0%}"))
