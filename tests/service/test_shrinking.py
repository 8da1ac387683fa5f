"""A real model whose memory other programs take while it answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from edgekv.budget.machine import Machine, Reading, system_reserve
from edgekv.budget.probe import HERE, Probe
from edgekv.budget.wish import Wish
from edgekv.core.events import Delta, Finished, FinishReason
from edgekv.core.frames import Submit
from edgekv.core.request import RequestId, SamplingParams, Segment, TextPrompt, Token
from edgekv.errors import DoesNotFit
from edgekv.service.conduct import Conduct
from edgekv.service.worker import Worker

pytestmark = pytest.mark.llama

MIB = 1024**2
AVAILABLE = 900 * MIB
WISH = Wish(context_length=1024, slots=4, cells=None)


class SmallMachine(Probe):
    """This machine, as if it had 1 GiB. `others` is what other programs take of it, and the
    engine's own part is measured.
    """

    def __init__(self) -> None:
        super().__init__()
        self.others = 0
        self.others_when_planned: list[int] = []
        self._own = 0

    def machine(self) -> Machine:
        if self.others_when_planned:
            self.others = self.others_when_planned.pop(0)
        total = 1024 * MIB
        return replace(
            HERE.machine(),
            total=Reading(total, "test"),
            available=Reading(AVAILABLE - self.others, "test"),
            reserve=system_reserve(total),
        )

    def available_bytes(self) -> int:
        return AVAILABLE - self.others - self._own

    def taken_bytes(self, pid: int) -> int:
        self._own = HERE.taken_bytes(pid)
        return self._own

    def stall_percent(self) -> float:
        return 0.0


def ask(name: str, text: str, max_tokens: int) -> Submit:
    prompt = TextPrompt((Segment(text, True),))
    sampling = SamplingParams(temperature=0)
    return Submit(RequestId(name), prompt, max_tokens, sampling, ignore_end=True)


async def answer(worker: Worker, asked: Submit) -> list[Token]:
    tokens: list[Token] = []
    async for event in worker.stream(asked):
        if isinstance(event, Delta):
            tokens += event.tokens
    assert event == Finished(asked.request_id, FinishReason.LENGTH, asked.max_tokens or 0)
    return tokens


async def squeeze(worker: Worker, probe: SmallMachine) -> None:
    """Other programs take more than the plan left."""
    assert worker.plan is not None
    assert worker.engine_pid is not None
    planned, held = worker.plan.total_bytes, HERE.taken_bytes(worker.engine_pid)
    probe.others += worker.watch.view().rooms[0].spare_bytes + 50 * MIB
    await worker.watch.look()
    given_back = held - HERE.taken_bytes(worker.engine_pid)
    assert worker.watch.view().level == "critical"
    # What was planned and never touched cannot be given back.
    assert given_back >= 0.7 * (planned - worker.plan.total_bytes) > 40 * MIB


async def disturbed(model: Path, asked: Submit) -> list[Token]:
    probe = SmallMachine()
    worker = Worker(str(model), WISH, probe=probe)
    await worker.start()
    assert worker.plan is not None
    before, pid = worker.plan.choice, worker.engine_pid
    await worker.watch.look()
    tokens: list[Token] = []
    async for event in worker.stream(asked):
        if isinstance(event, Delta):
            tokens += event.tokens
        if len(tokens) == 10:
            await squeeze(worker, probe)
    assert (worker.engine_pid, worker.num_restarts) == (pid, 0)
    assert worker.plan.choice.cells < before.cells
    assert worker.plan.choice.context_length == 1024
    await worker.close()
    return tokens


async def undisturbed(model: Path, asked: Submit) -> list[Token]:
    worker = Worker(str(model), WISH, Conduct(disk_cache_bytes=0))
    await worker.start()
    tokens = await answer(worker, asked)
    await worker.close()
    return tokens


def test_an_answer_goes_on_while_memory_is_taken_and_differs_in_no_token(
    starter_model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Its beginning is on no disk yet, so that both compute it in the same steps.
    monkeypatch.setenv("EDGEKV_HOME", str(tmp_path))

    async def both() -> None:
        asked = ask("a", "The robot walked", 40)
        async with asyncio.timeout(600):
            tokens = await disturbed(starter_model, asked)
            assert tokens == await undisturbed(starter_model, asked)
            assert len(tokens) == 40

    asyncio.run(both())


def test_memory_that_is_gone_when_loading_begins_makes_the_plan_smaller(
    starter_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        probe = SmallMachine()
        probe.others_when_planned = [0, 450 * MIB]
        worker = Worker(str(starter_model), Wish(), probe=probe)
        await worker.start()
        assert worker.plan is not None
        assert worker.plan.total_bytes <= AVAILABLE - 450 * MIB
        assert len(await answer(worker, ask("a", "The robot", 4))) == 4
        await worker.close()

    asyncio.run(run())
    assert "Other programs took memory while the plan was made" in caplog.text


def test_too_little_when_loading_begins_ends_with_both_numbers(starter_model: Path) -> None:
    async def run() -> None:
        probe = SmallMachine()
        probe.others_when_planned = [0, 850 * MIB]
        worker = Worker(str(starter_model), Wish(), probe=probe)
        with pytest.raises(DoesNotFit, match=r"needs .* MiB and .* may be used; .*\.") as caught:
            await worker.start()
        assert caught.value.needed > caught.value.available
        assert probe.others_when_planned == []

    asyncio.run(run())
