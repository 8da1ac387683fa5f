"""The plan that an open model could change to, in the memory there is now.

Its weights stay where they are and its cells stay readable, so only the size of the pool, the
slots and the tokens at once may change. It comes from what is allocated already, by the formulas:
a dry run would take memory just when there is none.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from edgekv.budget.case import Case
from edgekv.budget.dry_run import DryRun
from edgekv.budget.estimate import estimate
from edgekv.budget.planner import Basis, with_host_cache
from edgekv.budget.search import Spare, best_choice, most_frugal_choice
from edgekv.core.plan import Allocation, Choice, MemoryPlan, Opening

_SIZES = ("context_length", "slots", "cells", "batch", "ubatch", "kept", "host_cache_bytes")


def replan(basis: Basis, whole: Choice, opened: DryRun) -> MemoryPlan:
    """The best plan that is no larger than the choice `whole`; the smallest if none fits.

    `basis.machine` is what would be available if the engine gave everything back, and `opened`
    is what it has now.
    """
    case, judge = _case(basis, opened.choice), basis.judge(_no_dry_run)
    # The search may take what `whole` has and no more, as if the model could follow no more.
    bounded = structs.replace(basis.facts, context_train=whole.context_length)
    narrow = replace(case, facts=bounded, most_slots=whole.slots)
    spare = _like(opened.choice, judge.spare_by_estimate(opened))

    def sized(choice: Choice) -> DryRun:
        return DryRun(choice, estimate(opened, case.geometry, basis.facts.num_vocab, choice))

    if spare(whole) >= 0:
        run = sized(whole)
    else:
        choice = best_choice(narrow, spare) or _least(narrow, opened.choice)
        run = with_host_cache(case, judge, sized(choice))
    return basis.plan(_as_wished(basis, run.choice), judge, run)


def _least(case: Case, opened: Choice) -> Choice:
    return structs.replace(most_frugal_choice(case), swa_full=opened.swa_full)


def is_another_size_of(choice: Choice, whole: Choice) -> bool:
    """Whether an open model can change from one to the other: what a plan for it may decide."""
    sizes = {name: getattr(whole, name) for name in _SIZES}
    return structs.replace(choice, **sizes) == whole


def plan_as_opened(basis: Basis, opened: DryRun) -> MemoryPlan:
    """The plan that says what is allocated, however it came to be."""
    return basis.plan(_as_wished(basis, opened.choice), basis.judge(_no_dry_run), opened)


def _as_wished(basis: Basis, choice: Choice) -> Case:
    return replace(
        basis.case(),
        gpu_layers=choice.gpu_layers,
        worker_layers=choice.worker_layers,
        host_experts=choice.host_experts,
        threads=choice.threads,
    )


def _case(basis: Basis, choice: Choice) -> Case:
    """Everything fixed that decides where weights lie and what cells look like."""
    wish = replace(
        basis.wish,
        kv_type_k=choice.kv_type_k,
        kv_type_v=choice.kv_type_v,
        flash_attention=choice.flash_attention,
        embeddings=bool(choice.embedding_cells),
    )
    return replace(_as_wished(basis, choice), wish=wish)


def _like(choice: Choice, spare: Spare) -> Spare:
    """The same for contexts whose windows are kept as in `choice`; others never fit."""
    return lambda other: spare(other) if other.swa_full == choice.swa_full else -1


async def _no_dry_run(opening: Opening) -> Allocation:
    raise AssertionError(f"{opening} was to be estimated")
