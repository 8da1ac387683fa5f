"""Models for the models screen: what they are, and a hub that sends what a test lets it."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

from msgspec.structs import replace

from edgekv.core.plan import MemoryPlan
from edgekv.errors import EdgeKVError
from edgekv.models.catalogue import catalogue
from edgekv.models.folders import Origin
from edgekv.models.shelf import LocalModel
from edgekv.models.transfer import Progress
from edgekv.models.verdicts import Outcome, Verdict
from edgekv.service.model_supply import Hear, ModelSupply
from tests.tui.fakes import MIB, a_plan


class SizedModel(LocalModel):
    """Its files are nowhere, so the size is told."""

    @property
    def num_bytes(self) -> int:
        return 94 * MIB


def a_local(name: str, origin: Origin = Origin.EDGEKV) -> LocalModel:
    path = Path(f"/models/{name}.gguf")
    return SizedModel(name, path, (path,), origin)


def verdicts() -> tuple[Verdict, ...]:
    fits = Outcome(a_plan("any"))
    return (
        Verdict("starter", "Q4_1", 94 * MIB, a_local("starter"), None, fits, 210.0),
        Verdict("theirs", "Q8_0", 500 * MIB, a_local("theirs", Origin.OLLAMA), None, fits, 40.0),
        Verdict("small", "Q4_K_M", 800 * MIB, None, None, fits, 9.5),
        Verdict("unknown", None, None, None, None, Outcome(problem="Not known before it is here.")),
        Verdict(
            "huge",
            "Q4_K_M",
            40_000 * MIB,
            None,
            None,
            Outcome(problem="It needs 42.0 GiB; 6.0 GiB may be used.", needed_bytes=42 * 2**30),
        ),
    )


class PaperSupply(ModelSupply):
    """Downloads wait for `gate`; `got` and `removed` are what was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Semaphore(0)
        self.got: list[str] = []
        self.removed: list[str] = []
        self.error: EdgeKVError | None = None
        self.shown = verdicts()
        self.may_judge = asyncio.Event()
        self.may_judge.set()

    async def here(self) -> tuple[Verdict, ...]:
        return tuple(
            dataclasses.replace(v, outcome=Outcome()) for v in self.shown if v.local is not None
        )

    async def judged(self) -> tuple[Verdict, ...]:
        await self.may_judge.wait()
        return self.shown

    async def get(self, name: str, hear: Hear) -> None:
        self.got.append(name)
        for part in (1, 2, 3, 4):
            await self.gate.acquire()
            if self.error is not None:
                raise self.error
            hear(Progress(part * 200 * MIB, 800 * MIB))

    async def remove(self, model: LocalModel) -> None:
        if self.error is not None:
            raise self.error
        self.removed.append(model.name)


SHOWN = (
    ("smollm2-135m", 94, 8192, 4, 128.0, True),
    ("gemma-3-1b", 769, 32768, 4, 15.6, True),
    ("qwen3-0.6b", 610, 40960, 4, 19.7, False),
    ("llama-3.2-1b", 770, 131072, 4, 15.6, False),
    ("qwen3-4b", 2390, 40960, 4, 5.0, False),
    ("llama-3.1-8b", 4692, 24576, 2, 2.6, False),
)
LARGE = ("llama-3.3-70b", 40_550, 43)


def catalogued() -> tuple[Verdict, ...]:
    """Models of the catalogue on a machine with fixed numbers."""
    known = catalogue()
    fitting = tuple(
        Verdict(
            name=name,
            quantisation=known[name].files[0].quantisation,
            num_bytes=size * MIB,
            local=a_local(name) if is_here else None,
            model=known[name],
            outcome=Outcome(planned(context, slots)),
            most_tokens_per_second=speed,
        )
        for name, size, context, slots, speed, is_here in SHOWN
    )
    name, size, gib = LARGE
    problem = Outcome(
        problem=f"It needs {gib}.0 GiB; 6.0 GiB may be used.", needed_bytes=gib * 1024 * MIB
    )
    return (*fitting, Verdict(name, "Q4_K_M", size * MIB, None, known[name], problem))


def planned(context: int, slots: int) -> MemoryPlan:
    plan = a_plan("any")
    return replace(plan, choice=replace(plan.choice, context_length=context, slots=slots))
