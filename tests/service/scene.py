"""A machine, an open model and a watch over both, without any of them real."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from edgekv.budget.dry_run import DryRun
from edgekv.budget.machine import Machine
from edgekv.budget.planner import Basis
from edgekv.budget.probe import Probe
from edgekv.budget.replan import replan
from edgekv.budget.wish import Wish
from edgekv.core.frames import Described
from edgekv.core.memory_frames import Resized, Restrained
from edgekv.core.plan import Allocation, Choice, DeviceInfo, MemoryPlan, Opening
from edgekv.core.restraint import Restraint
from edgekv.engine.resizing import with_room_for
from edgekv.errors import EngineDied
from edgekv.service.ground import Ground
from edgekv.service.memory_watch import MemoryWatch
from edgekv.service.planning import plan_opened
from tests.engine.driver import request
from tests.unit.budget_models import (
    GIB,
    MIB,
    RUNTIME_BYTES,
    KnownAllocator,
    machine,
    model,
    plan,
)

FACTS = model(weight_bytes=256 * MIB)
HOST = machine(2 * GIB)


class Scripted(Probe):
    """A machine of 2 GiB where other programs take `others`, and the engine what is allocated."""

    def __init__(self) -> None:
        super().__init__()
        self.others = self.own = 0
        self.stall = 0.0

    def machine(self) -> Machine:
        return HOST

    def available_bytes(self) -> int:
        return HOST.available.value - self.others - self.own

    def taken_bytes(self, pid: int) -> int:
        return self.own

    def stall_percent(self) -> float:
        return self.stall


@dataclass(eq=False)
class OpenModel:
    """An engine that does as it is told. `promised` is what a running request may come to need."""

    probe: Scripted
    wish: Wish = field(default_factory=Wish)
    gpu: DeviceInfo | None = None
    promised: int = 0
    is_to_die: bool = False

    def __post_init__(self) -> None:
        devices = (self.gpu,) if self.gpu else ()
        self.library = KnownAllocator(FACTS, self.gpu.id if self.gpu else None)
        described = Described(1, FACTS, devices, RUNTIME_BYTES)
        self.ground: Ground | None = Ground(HOST, described)
        self.plan: MemoryPlan | None = plan(self.wish, FACTS, HOST, self.gpu)
        self.allocation: Allocation | None = self._allocate(self.plan.choice)
        self.open_pid: int | None = 7
        self.restraints: list[Restraint] = []
        self.sizes: list[Choice] = []

    async def survey(self) -> tuple[DeviceInfo, ...]:
        assert self.gpu is not None
        return (self.gpu,)

    async def restrain(self, restraint: Restraint) -> Restrained:
        self.restraints.append(restraint)
        return Restrained(1, 500, 3 * MIB)

    async def resize(self, choice: Choice) -> Resized:
        assert self.ground is not None
        assert self.plan is not None
        promised = [request("a", [1], self.promised - 1)] if self.promised else []
        choice = with_room_for(promised, choice)
        if choice == self.plan.choice:
            return Resized(1, choice, None, 0)
        self.sizes.append(choice)
        if self.is_to_die:
            raise EngineDied("gone")
        self.allocation = self._allocate(choice)
        self.plan = plan_opened(self.ground, self.wish, choice, self.allocation)
        return Resized(1, choice, self.allocation, len(promised))

    def start_smaller(self, most_bytes: int) -> None:
        """In another process, with what is but another size of what was open."""
        assert self.plan is not None
        assert self.allocation is not None
        devices = (self.gpu,) if self.gpu else ()
        less = replace(self.wish, memory_bytes=most_bytes)
        opened = DryRun(self.plan.choice, self.allocation)
        smaller = replan(Basis(FACTS, devices, HOST, less, RUNTIME_BYTES), opened.choice, opened)
        assert smaller.fits
        self.open_anew(smaller)

    def open_anew(self, made: MemoryPlan) -> None:
        self.plan, self.allocation = made, self._allocate(made.choice)
        self.open_pid = (self.open_pid or 0) + 1

    def _allocate(self, choice: Choice) -> Allocation:
        allocation = self.library.allocation(Opening(FACTS.path, choice))
        own = sum(b.bytes for b in allocation.buffers if b.device == "CPU")
        self.probe.own = own + RUNTIME_BYTES
        return allocation


class Scene:
    """A watch that looks once a second."""

    def __init__(self, **options: object) -> None:
        self.probe, self.now = Scripted(), 1000.0
        self.model = OpenModel(self.probe, **options)  # type: ignore[arg-type]
        self.watch = MemoryWatch(self.model, self.probe, clock=lambda: self.now)
        self.look()
        view = self.watch.view()
        assert view.level == "calm"
        self.margin = view.rooms[0].margin_bytes
        self.spare = view.rooms[0].spare_bytes

    def look(self, seconds: float = 1) -> str:
        async def looks() -> None:
            for _ in range(int(seconds)):
                self.now += 1
                await self.watch.look()

        asyncio.run(looks())
        return self.watch.view().level

    def run_out(self) -> Choice:
        """The engine ends for want of memory and is started again; what it has then."""
        self.model.start_smaller(self.watch.ran_out())
        self.watch.restarted()
        self.look()
        assert self.model.plan is not None
        return self.model.plan.choice

    def leave(self, eighths: float) -> str:
        """Other programs leave so many eighths of the margin; the level after a look."""
        room = self.watch.view().rooms[0]
        self.probe.others += int(room.spare_bytes - eighths * self.margin / 8)
        return self.look()


def replace_plan(made: MemoryPlan) -> MemoryPlan:
    """The same, as if it had been made anew."""
    return MemoryPlan(**{name: getattr(made, name) for name in made.__struct_fields__})
