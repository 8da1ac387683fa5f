"""From a model, a machine and wishes to a plan that fits, or a refusal that helps.

wishes ─▶ search ─▶ the best choice by estimate ─▶ dry run ─▶ does it fit? ─▶ plan
             ▲                                                   │ no
             └────────── better estimates from that dry run ◀────┘
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from msgspec import structs

from edgekv.budget.case import Case
from edgekv.budget.devices import Budget, read_budget
from edgekv.budget.dry_run import Allocator, AskLibrary, DryRun
from edgekv.budget.geometry import read_geometry
from edgekv.budget.judge import Judge, sum_bytes
from edgekv.budget.ledger import Engine, moving_bytes
from edgekv.budget.limits import limit_sentences
from edgekv.budget.machine import MIB, Machine
from edgekv.budget.metadata import ModelKeys
from edgekv.budget.outcomes import Outcome, standing
from edgekv.budget.refusal import check_wish, known_refusal, refusal
from edgekv.budget.report import planned_devices, planned_model
from edgekv.budget.search import best_choice, most_frugal_choice, preferred_choice
from edgekv.budget.wish import Wish
from edgekv.budget.workers import with_workers, worker_sentences
from edgekv.core.plan import DeviceInfo, MemoryPlan, ModelFacts

SCHEMA = 1
MOST_ROUNDS = 8
"""Rounds of search and dry run; two are usual."""
FEW_CORES = 4
HOST_CACHE_PART = 20
"""The host cache, and what else may stay unfilled, are one part in this many of all the rest: a
plan that is far above what is used takes memory from others.
"""


async def plan_memory(basis: Basis, dry_run: AskLibrary) -> MemoryPlan:
    """The best plan that keeps the wishes and fits the machine.

    Raises `DoesNotFit`, `InvalidValue` for a wish that nothing can keep, and `ModelError` where
    the library refuses the model.
    """
    case, judge = basis.case(), basis.judge(dry_run)
    check_wish(case, judge.budget)
    if judge.budget.has_gpu and basis.wish.gpu_layers is None:
        case = await _offloaded(case, judge)
    if judge.budget.lent:
        case = await with_workers(case, judge)
    run = with_host_cache(case, judge, await _settle(case, judge))
    return basis.plan(case, judge, run)


@dataclass(frozen=True, slots=True)
class Basis:
    """What every plan for a model on a machine is made from."""

    facts: ModelFacts
    devices: tuple[DeviceInfo, ...]
    machine: Machine
    wish: Wish
    runtime_bytes: int
    """What the engine process holds with nothing loaded but the libraries and the vocabulary."""
    tested: tuple[Outcome, ...] = ()
    """Outcomes of the gate on this model."""
    left_out: tuple[str, ...] = ()
    """Sentences about workers that were named and are not there."""

    @property
    def budget(self) -> Budget:
        return read_budget(self.devices, self.machine, self.wish)

    def case(self) -> Case:
        """With the wished number of GPU layers, or none."""
        is_small = self.machine.cores.value <= FEW_CORES and not self.budget.has_gpu
        return Case(
            facts=self.facts,
            geometry=read_geometry(self.facts.metadata),
            wish=self.wish,
            most_slots=4 if is_small else 8,
            threads=_threads(self.machine, self.wish),
            gpu_layers=self.wish.gpu_layers or 0,
            tested=self.tested,
        )

    def judge(self, dry_run: AskLibrary) -> Judge:
        geometry = read_geometry(self.facts.metadata)
        wish = self.wish
        engine = Engine(self.facts, geometry, wish.use_mmap, self.runtime_bytes, wish.grammars)
        return Judge(self.budget, engine, Allocator(self.facts, dry_run, self.wish.adapters))

    def plan(self, case: Case, judge: Judge, run: DryRun) -> MemoryPlan:
        """What a choice and its allocation come to."""
        lines, budget = judge.lines(run), judge.budget
        total = sum_bytes(lines)
        known = standing(run.choice, case.tested)
        return MemoryPlan(
            schema=SCHEMA,
            model=planned_model(self.facts, case.geometry, run),
            devices=planned_devices(self.devices, budget, lines),
            choice=run.choice,
            lines=lines,
            total_bytes=total,
            budget_bytes=budget.total_bytes,
            fits=judge.spare_bytes(run) >= 0,
            limits=(
                *limit_sentences(case, self.machine, budget, run.choice),
                *worker_sentences(budget, run.choice, case.all_layers),
                *self.left_out,
            ),
            kv_standing=known.word if known else None,
        )


def _threads(machine: Machine, wish: Wish) -> int:
    if wish.threads is None:
        return machine.cores.value
    return min(wish.threads, machine.usable_cpus.value)


async def _settle(case: Case, judge: Judge) -> DryRun:
    """The dry run of the best choice that really fits. Raises `DoesNotFit`."""
    frugal = most_frugal_choice(case)
    run, fitting = await _first_run(case, judge), None
    for _ in range(MOST_ROUNDS):
        best = best_choice(case, judge.spare_by_estimate(run))
        if best is None and run.choice == frugal:
            break
        if best == run.choice:  # for which the estimate is the dry run itself
            return run
        run = await judge.run(best or frugal)
        fitting = run if judge.spare_bytes(run) >= 0 else fitting
    if fitting is not None:
        return fitting
    run = await judge.run(frugal)
    if judge.spare_bytes(run) < 0:
        raise await refusal(case, judge, run)
    return run


def with_host_cache(case: Case, judge: Judge, run: DryRun) -> DryRun:
    """The same run with room for copies of conversations, if the plan may choose it.

    It is small, because cells in the pool serve every conversation better than copies do, and
    nothing if it could not hold a few pieces of one.
    """
    if case.wish.host_cache_bytes is not None:
        return run
    unfilled = judge.engine.grammar_bytes
    most = judge.needed_bytes(run) // HOST_CACHE_PART - unfilled
    claim = min(judge.spare_bytes(run), most)
    moving = moving_bytes(case.geometry, run.choice)
    cache = max(0, claim - moving) // MIB * MIB
    if cache < moving:
        return run
    return DryRun(structs.replace(run.choice, host_cache_bytes=cache), run.allocation)


async def _first_run(case: Case, judge: Judge) -> DryRun:
    for choice in (preferred_choice(case), most_frugal_choice(case)):
        if judge.may_run(choice):
            return await judge.run(choice)
    raise known_refusal(case, judge)


async def _offloaded(case: Case, judge: Judge) -> Case:
    """The case with as much on the GPU as fits beside one whole conversation.

    llama.cpp moves whole layers, and their cells move with them. Where not all fit, experts stay
    on the host first: most of a layer's bytes, of which few compute for a token.
    """
    layers = case.all_layers
    while layers > 0:
        offloaded = replace(case, gpu_layers=layers)
        share = await _offload_share(offloaded, judge)
        if share >= 1:
            return offloaded
        if layers == case.all_layers and (found := await _with_host_experts(offloaded, judge)):
            return found
        layers = min(layers - 1, int(layers * share))
    return replace(case, gpu_layers=0)


async def _with_host_experts(case: Case, judge: Judge) -> Case | None:
    """The case with the experts of as few layers on the host as let the rest fit the GPU.

    None for a model without experts, or where not even that is enough.
    """
    if not ModelKeys(case.facts.metadata).number("expert_count"):
        return None
    fitting, too_few, enough = None, 0, case.facts.num_layers + 1
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        tried = replace(case, host_experts=middle)
        if await _offload_share(tried, judge) >= 1:
            fitting, enough = tried, middle
        else:
            too_few = middle
    return fitting


async def _offload_share(case: Case, judge: Judge) -> float:
    one_conversation = preferred_choice(replace(case, most_slots=1))
    return _gpu_share(await judge.run(one_conversation), judge)


def _gpu_share(run: DryRun, judge: Judge) -> float:
    """How much of what graphics devices should hold fits them; 1 is all."""
    shares = [1.0]
    bounds = [(pool.device_ids, pool.budget_bytes) for pool in judge.budget.local[1:]]
    bounds += [((cap.device_id,), cap.bytes) for cap in judge.budget.caps]
    for device_ids, most in bounds:
        lines = [line for line in judge.lines(run) if line.device in device_ids]
        compute = sum_bytes(line for line in lines if line.label == "compute")
        layers = sum_bytes(lines) - compute
        if layers + compute > most:
            shares.append(max(0, most - compute) / max(1, layers))
    return min(shares)
