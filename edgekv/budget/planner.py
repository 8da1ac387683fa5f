"""From a model, a machine and wishes to a plan that fits, or a refusal that helps.

wishes ─▶ search ─▶ the best choice by estimate ─▶ dry run ─▶ does it fit? ─▶ plan
             ▲                                                   │ no
             └────────── better estimates from that dry run ◀────┘
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from edgekv.budget.devices import HOST, Budget, read_budget
from edgekv.budget.dry_run import Allocator, AskLibrary, DryRun
from edgekv.budget.estimate import estimate
from edgekv.budget.formulas import state_bytes
from edgekv.budget.geometry import read_geometry
from edgekv.budget.ledger import Engine, cost_lines
from edgekv.budget.limits import limit_sentences
from edgekv.budget.machine import Machine
from edgekv.budget.refusal import check_wish, refusal
from edgekv.budget.report import planned_devices, planned_model
from edgekv.budget.search import Case, best_choice, most_frugal_choice, preferred_choice
from edgekv.budget.wish import Wish
from edgekv.core.plan import (
    Allocation,
    BufferSize,
    Choice,
    CostLine,
    DeviceInfo,
    MemoryPlan,
    ModelFacts,
)
from edgekv.errors import DoesNotFit

SCHEMA = 1
MOST_ROUNDS = 8
"""Rounds of search and dry run; two are usual."""
FEW_CORES = 4


async def plan_memory(
    facts: ModelFacts,
    devices: tuple[DeviceInfo, ...],
    machine: Machine,
    wish: Wish,
    dry_run: AskLibrary,
    runtime_bytes: int,
) -> MemoryPlan:
    """The best plan for `facts` that keeps the wishes and fits this machine.

    `runtime_bytes` is what the engine process holds with nothing loaded but the libraries and
    the vocabulary. Raises `DoesNotFit`, `InvalidValue` for a wish that nothing can keep, and
    `ModelError` where the library refuses the model.
    """
    budget = read_budget(devices, machine, wish)
    geometry = read_geometry(facts.metadata)
    case = Case(
        facts=facts,
        geometry=geometry,
        wish=wish,
        most_slots=4 if machine.cores.value <= FEW_CORES and not budget.has_gpu else 8,
        threads=_threads(machine, wish),
        gpu_layers=wish.gpu_layers or 0,
    )
    check_wish(case, budget)
    engine = Engine(facts, geometry, wish.use_mmap, runtime_bytes, wish.host_cache_bytes or 0)
    planning = _Planning(case, budget, engine, Allocator(facts, dry_run))
    if budget.has_gpu and wish.gpu_layers is None:
        planning = replace(planning, case=await planning.offloaded())
    run = await planning.settle()
    lines = planning.lines(run)
    return MemoryPlan(
        schema=SCHEMA,
        model=planned_model(facts, geometry, run),
        devices=planned_devices(devices, budget, lines),
        choice=run.choice,
        lines=lines,
        total_bytes=_sum(lines),
        budget_bytes=budget.total_bytes,
        fits=True,
        limits=limit_sentences(planning.case, machine, budget, run.choice),
    )


def _threads(machine: Machine, wish: Wish) -> int:
    if wish.threads is None:
        return machine.cores.value
    return min(wish.threads, machine.usable_cpus.value)


@dataclass(frozen=True, slots=True)
class _Planning:
    case: Case
    budget: Budget
    engine: Engine
    allocator: Allocator

    async def settle(self) -> DryRun:
        """The dry run of the best choice that really fits. Raises `DoesNotFit`."""
        run, fitting = await self._first_run(), None
        for _ in range(MOST_ROUNDS):
            best = self._best(run)
            if best is None:
                frugal = most_frugal_choice(self.case)
                if run.choice == frugal:
                    break
                best = frugal
            elif best == run.choice:  # for which the estimate is the dry run itself
                return run
            run = await self.allocator.run(best)
            fitting = run if self.fits(run) else fitting
        if fitting is None:
            raise self._refusal(run)
        return fitting

    async def offloaded(self) -> Case:
        """The case with as many layers on the GPU as fit beside one whole conversation.

        llama.cpp moves whole layers, and their cells move with them.
        """
        layers = self.case.all_layers
        while layers > 0:
            case = replace(self.case, gpu_layers=layers)
            enough = preferred_choice(replace(case, most_slots=1))
            run = await self.allocator.run(enough)
            share = self._gpu_share(run)
            if share >= 1:
                return case
            layers = min(layers - 1, int(layers * share))
        return replace(self.case, gpu_layers=0)

    def fits(self, run: DryRun) -> bool:
        lines = self.lines(run)
        in_pools = all(
            _sum(line for line in lines if self.budget.pool_of(line.device) is pool)
            <= pool.budget_bytes
            for pool in self.budget.pools
        )
        return in_pools and _sum(lines) <= self.budget.total_bytes

    def lines(self, run: DryRun) -> tuple[CostLine, ...]:
        return cost_lines(self.engine, run.choice, run.allocation)

    async def _first_run(self) -> DryRun:
        for choice in (preferred_choice(self.case), most_frugal_choice(self.case)):
            # The library's dry run takes the memory of recurrent layers for real.
            if self._state_bytes(choice) <= self.budget.total_bytes:
                return await self.allocator.run(choice)
        raise self._refusal(self._known_run(choice))

    def _state_bytes(self, choice: Choice) -> int:
        geometry = self.case.geometry
        return 0 if geometry is None else state_bytes(geometry, choice.num_seqs)

    def _best(self, run: DryRun) -> Choice | None:
        return best_choice(self.case, lambda choice: self.fits(self._estimated(run, choice)))

    def _estimated(self, run: DryRun, choice: Choice) -> DryRun:
        facts = self.case.facts
        allocation = estimate(run, self.case.geometry, facts.num_vocab, choice)
        return DryRun(choice, allocation)

    def _known_run(self, choice: Choice) -> DryRun:
        """What a model takes for sure where its recurrent state alone is too much."""
        weights = BufferSize(HOST, "weights", self.case.facts.weight_bytes)
        state = BufferSize(HOST, "recurrent", self._state_bytes(choice))
        return DryRun(choice, Allocation((weights, state)))

    def _gpu_share(self, run: DryRun) -> float:
        """How much of what graphics devices of their own should hold fits them; 1 is all."""
        shares = [1.0]
        for pool in self.budget.pools[1:]:
            lines = [line for line in self.lines(run) if line.device in pool.device_ids]
            compute = _sum(line for line in lines if line.label == "compute")
            layers = _sum(lines) - compute
            if layers + compute > pool.budget_bytes:
                shares.append(max(0, pool.budget_bytes - compute) / max(1, layers))
        return min(shares)

    def _refusal(self, run: DryRun) -> DoesNotFit:
        def estimated(choice: Choice) -> DryRun:
            return self._estimated(run, choice)

        return refusal(
            self.case,
            self.budget,
            fits=lambda choice: self.fits(estimated(choice)),
            needed_bytes=lambda choice: _sum(self.lines(estimated(choice))),
        )


def _sum(lines: Iterable[CostLine]) -> int:
    return sum(line.bytes for line in lines)
