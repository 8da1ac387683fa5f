"""Watches the memory that an open model counts on, and makes the engine do with less in time.

Once a second it reads what is left, asks `budget/pressure.py` what that means and tells the engine.
Nothing here allocates when memory is short: what is given up is given up first.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from edgekv.budget.dry_run import DryRun
from edgekv.budget.machine import Machine, Reading
from edgekv.budget.planner import Basis
from edgekv.budget.pressure import (
    SECONDS_TO_GROW,
    Level,
    Outlook,
    Room,
    asks_for_a_smaller_pool,
    asks_for_less,
    next_outlook,
    restraint,
    scarcest,
)
from edgekv.budget.probe import Probe
from edgekv.budget.replan import is_another_size_of, replan
from edgekv.budget.room import Calm, Held, has_own_memory, margins, rooms, with_given_back
from edgekv.budget.sizes import Reserve
from edgekv.budget.trust import Trust
from edgekv.budget.wish import Wish
from edgekv.core.memory_frames import Resized, Restrained
from edgekv.core.plan import Allocation, Choice, DeviceInfo, MemoryPlan
from edgekv.core.restraint import Restraint
from edgekv.errors import EdgeKVError
from edgekv.service import memory_words
from edgekv.service.ground import Ground
from edgekv.service.memory_view import MemoryView

SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_BETWEEN_SIZES = 5.0
"""A pool has time to show what a new size brought."""
NUM_STEPS_TOLD = 16
LEAST_GROWTH = 4
"""The pool grows when it gains one part in so many of what it had at first, or all of it."""

_log = logging.getLogger("edgekv.memory")


class Watched(Protocol):
    """What is open, and how its engine is told to do with less."""

    wish: Wish
    ground: Ground | None
    plan: MemoryPlan | None
    allocation: Allocation | None

    @property
    def open_pid(self) -> int | None:
        """The engine process, if a model is open in it."""

    async def survey(self) -> tuple[DeviceInfo, ...]: ...

    async def restrain(self, restraint: Restraint) -> Restrained: ...

    async def resize(self, choice: Choice) -> Resized:
        """`plan` and `allocation` follow."""


class MemoryWatch:
    def __init__(
        self, watched: Watched, probe: Probe, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._watched, self._probe, self._clock = watched, probe, clock
        self._one_at_a_time = asyncio.Lock()
        self._outlook = Outlook()
        self._rooms: tuple[Room, ...] = ()
        self._stall_percent = 0.0
        self._plan: MemoryPlan | None = None
        """The one that was last seen or made here. Any other is a new start."""
        self._whole: MemoryPlan | None = None
        """What the pool grows back to."""
        self._trust = Trust()
        self._tried_bytes = 0
        """Of a plan that the engine was told to change to, while it does."""
        self._margins: dict[str, int] = {}
        self._pid: int | None = None
        """The process that knows of the restraint; None if the model was opened anew."""
        self._sized_at = 0.0
        self._calm: Calm | None = None
        self._is_at_its_least = False
        self._steps: deque[str] = deque(maxlen=NUM_STEPS_TOLD)
        self._counts: Counter[str] = Counter()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            try:
                await self.look()
            except EdgeKVError as error:
                # The engine ended meanwhile. Whoever needs it starts it again; the next look
                # finds it.
                _log.info("memory could not be looked after: %s", error)

    async def look(self) -> None:
        """Read once, and do what follows from it. Raises the `EdgeKVError` of a failing engine."""
        async with self._one_at_a_time:
            await self._look()

    def ran_out(self) -> int:
        """The engine ended for want of memory: how many bytes its next plan may take."""
        plan = self._watched.plan
        assert plan is not None
        self._note(plan)
        taken = max(plan.local_bytes, self._tried_bytes)
        self._trust = self._trust.after_shortage(taken, self._clock())
        assert self._trust.most_bytes is not None
        self._tell("ran_out", memory_words.ran_out(self._trust.most_bytes))
        return self._trust.most_bytes

    def restarted(self) -> None:
        """A new engine process opened the model. If in but another size, it grows back in time."""
        plan, whole = self._watched.plan, self._whole
        assert plan is not None
        self._tried_bytes = 0
        if whole is not None and is_another_size_of(plan.choice, whole.choice):
            self._plan, self._pid, self._calm = plan, None, None
            self._whole = plan if plan.choice == whole.choice else whole

    async def _look(self) -> None:
        plan, allocation, pid = self._watched.plan, self._watched.allocation, self._watched.open_pid
        if plan is None or allocation is None or pid is None:
            return
        self._note(plan)
        held = await self._held(plan, pid)
        now = self._clock()
        self._rooms = tuple(rooms(plan, allocation, held, self._margins))
        self._stall_percent = self._probe.stall_percent()
        before = self._outlook
        self._outlook = next_outlook(before, self._rooms, self._stall_percent, now)
        if self._outlook.level is not before.level or pid != self._pid:
            await self._restrain(before.level, pid, plan.choice.slots)
        if self._outlook.level is not Level.CRITICAL:
            self._is_at_its_least = False
        if now - self._sized_at < SECONDS_BETWEEN_SIZES:
            return
        if asks_for_a_smaller_pool(self._rooms):
            await self._shrink(held)
            self._calm = None
        elif (least := self._least_of_a_long_calm(held, now)) is not None:
            await self._grow(least, now)

    def view(self) -> MemoryView:
        """For people and Prometheus: how things stand as of the last look."""
        plan, whole = self._plan, self._whole
        level = self._outlook.level
        slots = plan.choice.slots if plan else 0
        return MemoryView(
            level=level.name.lower(),
            rooms=self._rooms,
            stall_percent=self._stall_percent,
            slots_at_once=restraint(level, slots).slots or slots,
            cells=plan.choice.cells if plan else 0,
            cells_at_first=whole.choice.cells if whole else 0,
            counts=dict(self._counts),
            steps=tuple(self._steps),
        )

    def _note(self, plan: MemoryPlan) -> None:
        if plan is not self._plan:
            self._plan = self._whole = plan
            self._trust = Trust()
            self._margins, self._pid = margins(plan), None
            self._is_at_its_least = False

    async def _held(self, plan: MemoryPlan, pid: int) -> Held:
        devices: tuple[DeviceInfo, ...] = ()
        if any(map(has_own_memory, plan.devices)):
            devices = await self._watched.survey()
        return Held(self._probe.available_bytes(), self._probe.taken_bytes(pid), devices)

    async def _restrain(self, before: Level, pid: int, slots: int) -> None:
        level = self._outlook.level
        wanted = restraint(level, slots)
        if pid == self._pid or wanted != Restraint():
            freed = await self._watched.restrain(wanted)
            if level != before:
                room = scarcest(self._rooms)
                self._tell(
                    level.name.lower() if level > before else "eased",
                    memory_words.level_sentence(before, level, room, freed, wanted, slots),
                )
        self._pid = pid

    async def _shrink(self, held: Held) -> None:
        plan = self._replanned(held)
        assert self._plan is not None
        before = self._plan
        if plan.total_bytes < before.total_bytes:
            resized = await self._resize(plan)
            if resized.allocation is not None:
                assert self._plan is not None
                saved = before.total_bytes - self._plan.total_bytes
                words = memory_words.smaller(before.choice, resized, saved, scarcest(self._rooms))
                self._tell("smaller", words)
                return
        if not self._is_at_its_least:
            self._is_at_its_least = True
            self._tell("at_least", memory_words.at_least(before.choice, scarcest(self._rooms)))

    def _least_of_a_long_calm(self, held: Held, now: float) -> Held | None:
        """What a smaller pool may grow into; None if the calm has not been long enough."""
        if self._plan is self._whole or self._outlook.level is not Level.CALM:
            self._calm, self._trust = None, self._trust.under_pressure(now)
            return None
        self._calm = self._calm.with_look(held) if self._calm else Calm(now, held)
        if now - self._calm.since_seconds < SECONDS_TO_GROW:
            return None
        least, self._calm = self._calm.least, None
        return least

    async def _grow(self, held: Held, now: float) -> None:
        allocation = self._watched.allocation
        assert self._plan is not None
        assert self._whole is not None
        assert allocation is not None
        before, whole = self._plan.choice, self._whole.choice
        trust, plan = self._trust, self._whole
        self._trust = trust.after_quiet(self._whole.local_bytes, now)
        is_short = asks_for_less(rooms(self._whole, allocation, held, self._margins))
        if is_short or self._trust.most_bytes is not None:
            plan = self._replanned(held)
        gain = plan.choice.cells - before.cells
        # More trust is a step of its own, however small.
        least = 1 if trust is not self._trust else whole.cells / LEAST_GROWTH
        if plan.choice == whole or gain >= least:
            self._is_at_its_least = False
            resized = await self._resize(plan)
            if resized.choice == whole:
                self._whole = self._plan
            self._tell("larger", memory_words.larger(before, resized, whole))

    async def _resize(self, plan: MemoryPlan) -> Resized:
        self._sized_at, self._tried_bytes = self._clock(), plan.local_bytes
        resized = await self._watched.resize(plan.choice)
        self._tried_bytes = 0
        self._plan = self._watched.plan  # its own doing, so the whole stays what it was
        return resized

    def _replanned(self, held: Held) -> MemoryPlan:
        """The best plan for what others leave, with a margin."""
        ground, plan, allocation = self._watched.ground, self._plan, self._watched.allocation
        assert ground is not None
        assert plan is not None
        assert allocation is not None
        assert self._whole is not None
        given_back = with_given_back(plan, allocation, held)
        wish, most_bytes = self._watched.wish, self._trust.most_bytes
        margin = self._rooms[0].margin_bytes
        if wish.reserve is not None:
            margin = max(margin, wish.reserve.of(ground.machine.total.value))
        basis = Basis(
            ground.described.facts,
            given_back.devices or ground.described.devices,
            _with_available(ground.machine, given_back.available),
            replace(
                wish, reserve=Reserve(margin), memory_bytes=_less(wish.memory_bytes, most_bytes)
            ),
            ground.described.resident_bytes,
            ground.tested,
        )
        return replan(basis, self._whole.choice, DryRun(plan.choice, allocation))

    def _tell(self, step: str, sentence: str) -> None:
        self._counts[step] += 1
        self._steps.append(sentence)
        _log.warning("%s", sentence)


def _less(one: int | None, other: int | None) -> int | None:
    """The smaller amount; None is no bound."""
    return min((amount for amount in (one, other) if amount is not None), default=None)


def _with_available(machine: Machine, num_bytes: int) -> Machine:
    return replace(machine, available=Reading(num_bytes, "what other programs leave"))
