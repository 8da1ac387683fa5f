"""The gate, run on a real model: a KV type against f16, trial by trial.

An interrupted run goes on where it was: what each trial measured is kept beside the verdict.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace as wished
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from edgekv.budget.formulas import padded
from edgekv.budget.machine import read_machine
from edgekv.budget.wish import Wish
from edgekv.core.comparison import Compare, Compared, ComparisonOpened, OpenComparison
from edgekv.core.frames import DryRun, DryRunDone, Tokenize, Tokens
from edgekv.core.plan import Allocation, MemoryPlan, Opening
from edgekv.core.request import Segment, TextPrompt, Token
from edgekv.errors import Unavailable
from edgekv.quality.gate import objections
from edgekv.quality.measures import Measured, together
from edgekv.quality.passages import ask
from edgekv.quality.trials import LEAST_LENGTH, Trial, trials
from edgekv.quality.verdicts import Subject, Verdict, Verdicts
from edgekv.service.engine_client import EngineClient
from edgekv.service.planning import Ground, plan_on, read_ground, subject_of
from edgekv.service.stages import Stage

REFERENCE = "f16"
LONGEST = 16_384
"""Tokens, unless more are asked for: on a laptop every doubling costs minutes."""
ROWS = 32
"""Predictions that one step gives; the output buffer has a row for each."""
BRANCH_TOKENS = 512
"""More than any question or piece of prose takes after the long text."""

Frame = TypeVar("Frame")


@dataclass(frozen=True, slots=True)
class Scope:
    """What a run of the gate covers."""

    kv_type_k: str
    kv_type_v: str
    quick: bool = False
    longest: int = LONGEST
    """Tokens of the longest text, as far as the model and memory go."""


class Validation:
    """One KV type on one model. `run` may be called once."""

    def __init__(self, path: str, wish: Wish, scope: Scope, verdicts: Verdicts) -> None:
        """Wishes for KV types are the scope's, not the wish's."""
        self._path, self._scope, self._verdicts = path, scope, verdicts
        self._wish = wished(wish, kv_type_k=scope.kv_type_k, kv_type_v=scope.kv_type_v)
        self._hear: Callable[[Stage], None] = lambda _: None

    async def run(self, on_stage: Callable[[Stage], None]) -> Verdict:
        """Measure and judge, and keep the verdict.

        Raises `ModelError`, `DoesNotFit`, `EngineDied`, `Unavailable` if both contexts do not fit
        at once, and `OSError` if the verdict cannot be written.
        """
        self._hear = on_stage
        self._hear(Stage(0, 0, "planning memory"))
        ground, reference, candidate, planned = await self._prepare()
        todo = trials(planned, quick=self._scope.quick)
        client = await EngineClient.start(command="comparison")
        try:
            self._hear(Stage(0, len(todo), "loading"))
            await _expect(
                ComparisonOpened,
                client,
                lambda call: OpenComparison(call, reference, candidate),
            )
            subject = subject_of(ground.described)
            parts = [
                await self._trial(client, subject, trial, Stage(number, len(todo), trial.name))
                for number, trial in enumerate(todo)
            ]
        finally:
            await client.close()
        self._hear(Stage(0, 0, ""))
        return self._judge(subject, ground, together(parts))

    async def _prepare(self) -> tuple[Ground, Opening, Opening, int]:
        """The two openings, and the tokens of the longest text they have room for."""
        machine = read_machine()
        client = await EngineClient.start()
        try:
            ground = await read_ground(client, self._path, machine)
            plan = await plan_on(client, ground, self._wish)
            longest = min(self._scope.longest, plan.choice.context_length - BRANCH_TOKENS)
            while longest >= min(LEAST_LENGTH, plan.choice.context_length // 2):
                pair = self._openings(plan, longest)
                if await _fit_together(client, plan, *pair):
                    return ground, *pair, longest
                longest //= 2
        finally:
            await client.close()
        raise Unavailable(
            f"An {REFERENCE} context and one of {self._scope.kv_type_k}/{self._scope.kv_type_v} "
            "do not fit at once; give more --memory, or validate a smaller model."
        )

    def _openings(self, plan: MemoryPlan, longest: int) -> tuple[Opening, Opening]:
        cells = padded(longest + BRANCH_TOKENS)
        choice = replace(
            plan.choice,
            context_length=cells,
            cells=cells,
            slots=1,
            # One sequence id gives one row of logits.
            kept=ROWS - 2,
            host_cache_bytes=0,
            embedding_cells=0,
        )
        scope, path = self._scope, self._path

        def opening(kv_type_k: str, kv_type_v: str) -> Opening:
            changed = replace(choice, kv_type_k=kv_type_k, kv_type_v=kv_type_v)
            return Opening(path, changed, use_mmap=self._wish.use_mmap)

        return opening(REFERENCE, REFERENCE), opening(scope.kv_type_k, scope.kv_type_v)

    async def _trial(
        self, client: EngineClient, subject: Subject, trial: Trial, stage: Stage
    ) -> Measured:
        kept = self._unfinished(subject) / f"{trial.length}-{trial.seed}.json"
        self._hear(stage)
        if kept.is_file():
            return msgspec.json.decode(kept.read_bytes(), type=Measured)

        async def tokenise(text: str) -> tuple[Token, ...]:
            prompt = TextPrompt((Segment(text, control=False),))
            return (await _expect(Tokens, client, lambda call: Tokenize(call, prompt))).tokens

        asked = await ask(trial, tokenise)
        compared = await _expect(Compared, client, lambda call: Compare(call, asked.passage))
        measured = asked.measured(compared.texts)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(msgspec.json.encode(measured))
        return measured

    def _unfinished(self, subject: Subject) -> Path:
        scope = self._scope
        name = f"{subject.key}-{scope.kv_type_k}-{scope.kv_type_v}"
        return self._verdicts.folder / "unfinished" / name

    def _judge(self, subject: Subject, ground: Ground, measured: Measured) -> Verdict:
        verdict = Verdict(
            self._scope.kv_type_k,
            self._scope.kv_type_v,
            self._scope.quick,
            objections(measured),
            measured.longest,
            measured,
            ground.described.facts.name,
            subject.computed_by,
        )
        self._verdicts.keep(subject, verdict)
        shutil.rmtree(self._unfinished(subject), ignore_errors=True)
        return verdict


async def _fit_together(
    client: EngineClient, plan: MemoryPlan, reference: Opening, candidate: Opening
) -> bool:
    """Whether both contexts fit beside one set of weights, on every device."""
    both = [await _allocation(client, opening) for opening in (reference, candidate)]
    for device in plan.devices:
        weights = sum(
            line.bytes
            for line in plan.lines
            if line.device == device.id and line.label in ("weights", "runtime")
        )
        contexts = sum(
            buffer.bytes
            for allocation in both
            for buffer in allocation.buffers
            if buffer.device == device.id and buffer.label != "weights"
        )
        if weights + contexts > device.budget_bytes:
            return False
    return True


async def _allocation(client: EngineClient, opening: Opening) -> Allocation:
    return (await _expect(DryRunDone, client, lambda call: DryRun(call, opening))).allocation


async def _expect(kind: type[Frame], client: EngineClient, command: Callable[[int], Any]) -> Frame:
    reply = await client.call(command)
    assert isinstance(reply, kind)
    return reply
