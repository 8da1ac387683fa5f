"""The gate, run on a real model: KV types against f16, trial by trial.

An interrupted run goes on where it was: what each trial measured is kept beside the verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from edgekv.budget.kv_types import Pair
from edgekv.budget.outcomes import QUICK_LENGTH
from edgekv.budget.wish import Wish
from edgekv.quality.gate import is_settled, objections
from edgekv.quality.kept_trials import KeptTrials
from edgekv.quality.measures import Measured, together
from edgekv.quality.passages import ask
from edgekv.quality.trials import Trial, trials
from edgekv.quality.verdicts import REFERENCE, Subject, Verdict, Verdicts
from edgekv.service.comparing import Comparing, Hear, comparing
from edgekv.service.ground import subject_of
from edgekv.service.lineup import BRANCH_TOKENS, prepare
from edgekv.service.stages import Stage

LONGEST = 16_384
"""Tokens, unless more are asked for: on a laptop every doubling costs minutes."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a run of the gate covers."""

    pairs: tuple[Pair, ...]
    """KV types, each pair once, and none the reference."""
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
        self._kept = KeptTrials(verdicts.folder / "trials")
        # That of the reference is what rounding alone does.
        self._measured = dict.fromkeys((REFERENCE, *scope.pairs), Measured())
        self._longest: dict[Pair, int] = {}

    async def run(self, on_stage: Callable[[Stage], None]) -> tuple[Verdict, ...]:
        """Measure and judge, and keep the verdicts: one a pair, in the order of the scope.

        Raises `ModelError`, `DoesNotFit`, `EngineDied`, `Unavailable` if not even two contexts fit
        at once, and `OSError` if a verdict cannot be written.
        """
        on_stage(Stage(0, 0, "planning memory"))
        pairs = (REFERENCE, *self._scope.pairs)
        prepared = await prepare(self._path, self._wish, pairs, self._scope.context)
        subject = subject_of(prepared.ground.described)
        todo = trials(prepared.context - BRANCH_TOKENS, quick=self._scope.quick)
        num_stages = len(prepared.lineups) * len(todo)
        done = count()
        for lineup in prepared.lineups:
            async with comparing(lineup, prepared.ground.workers) as opened:
                for trial in todo:
                    stage = Stage(next(done), num_stages, f"{trial.length:,} tokens")
                    await self._try(opened, subject, trial, _teller(on_stage, stage))
        on_stage(Stage(0, 0, ""))
        name = prepared.ground.described.facts.name
        return tuple(self._judge(subject, name, pair) for pair in self._scope.pairs)

    async def _try(
        self, opened: Comparing, subject: Subject, trial: Trial, on_progress: Hear
    ) -> None:
        on_progress(0.0)
        wanted = self._wanted(opened.pairs)
        for pair in wanted:
            self._longest[pair] = trial.length + BRANCH_TOKENS
        missing = [pair for pair in wanted if not self._recall(subject, pair, trial)]
        if not missing:
            return
        asked = await ask(trial, opened.tokenise)
        found = await opened.compare(asked.passage, missing, on_progress)
        for pair, likenesses in zip(missing, found, strict=True):
            self._kept.keep(subject, pair, trial, asked.measured(likenesses))
            self._recall(subject, pair, trial)

    def _wanted(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Those that longer texts may still decide on, and the noise to judge them by."""
        if all(self._is_settled(pair) for pair in self._scope.pairs):
            return []
        return [pair for pair in pairs if not self._is_settled(pair)]

    def _is_settled(self, pair: Pair) -> bool:
        if pair == REFERENCE:
            return False
        noise = self._measured[REFERENCE]
        return not self._scope.every_length and is_settled(self._measured[pair], noise)

    def _recall(self, subject: Subject, pair: Pair, trial: Trial) -> bool:
        """Take over what a trial measured, if it is kept."""
        kept = self._kept.of(subject, pair, trial)
        if kept is not None:
            self._measured[pair] = together((self._measured[pair], kept))
        return kept is not None

    def _judge(self, subject: Subject, model: str, pair: Pair) -> Verdict:
        measured, noise = self._measured[pair], self._measured[REFERENCE]
        verdict = Verdict(
            *pair,
            self._scope.quick,
            objections(measured, noise),
            self._longest[pair],
            measured,
            model,
            subject.computed_by,
            noise,
        )
        self._verdicts.keep(subject, verdict)
        self._kept.drop(subject, pair)
        return verdict


def _teller(on_stage: Callable[[Stage], None], stage: Stage) -> Hear:
    return lambda part: on_stage(replace(stage, words=f"{stage.words}, {part:.0%}"))
