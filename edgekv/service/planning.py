"""Memory plans for a model: before it is opened, once it is, and where memory ran out."""

from __future__ import annotations

import logging
from dataclasses import replace

from msgspec import structs

from edgekv.budget import dry_run as dry_runs
from edgekv.budget.differences import differences, spilled
from edgekv.budget.machine import Reading
from edgekv.budget.planner import Basis, plan_memory
from edgekv.budget.probe import Probe
from edgekv.budget.replan import plan_as_opened, replan
from edgekv.budget.room import Held, margins, rooms
from edgekv.budget.sizes import Reserve, format_size
from edgekv.budget.wish import Wish
from edgekv.core.frames import DryRun, DryRunDone, Opened
from edgekv.core.memory_frames import Survey, Surveyed
from edgekv.core.plan import Allocation, Choice, MemoryPlan, Opening
from edgekv.errors import DoesNotFit
from edgekv.service.engine_client import EngineClient
from edgekv.service.ground import Ground

_log = logging.getLogger(__name__)


async def plan_on(client: EngineClient, ground: Ground, wish: Wish) -> MemoryPlan:
    """The best plan that keeps the wish; `client` answers the dry runs. Raises `DoesNotFit`,
    `InvalidValue` or `ModelError`.
    """
    try:
        return await plan_memory(_basis(ground, wish), _allocator_of(client))
    except DoesNotFit as error:
        sentences = " ".join((str(error), *ground.workers.left_out))
        raise DoesNotFit(sentences, error.needed, error.available) from error


def _allocator_of(client: EngineClient) -> dry_runs.AskLibrary:
    async def dry_run(opening: Opening) -> Allocation:
        reply = await client.call(lambda call: DryRun(call, opening))
        assert isinstance(reply, DryRunDone)
        return reply.allocation

    return dry_run


async def plan_less(
    client: EngineClient, ground: Ground, wish: Wish, opened: dry_runs.DryRun, most_bytes: int
) -> MemoryPlan | None:
    """The best plan that takes no more than `most_bytes`. If one fits that is but another size of
    what was open, it is that, for then cells on disk go on to be of use. None, which is logged, if
    none fits. Raises `InvalidValue` or `ModelError`.
    """
    less = replace(
        wish,
        memory_bytes=min(most_bytes, wish.memory_bytes or most_bytes),
        reserve=wish.reserve or _usual_reserve(ground, wish),
    )
    plan = replan(_basis(ground, less), opened.choice, opened)
    if not plan.fits:
        try:
            return await plan_on(client, ground, less)
        except DoesNotFit as error:
            _log.warning("The engine ran out of memory and no smaller plan fits: %s", error)
            return None
    run = await _basis(ground, wish).judge(_allocator_of(client)).run(plan.choice)
    return plan_opened(ground, wish, run.choice, run.allocation)


def _usual_reserve(ground: Ground, wish: Wish) -> Reserve | None:
    """What a plan leaves to others where the user neither said that nor its whole size."""
    return Reserve(ground.machine.reserve.value) if wish.memory_bytes is None else None


async def plan_again(
    client: EngineClient, ground: Ground, wish: Wish, plan: MemoryPlan, probe: Probe
) -> tuple[Ground, MemoryPlan]:
    """The same ground and plan, or new ones if half of what the plan left was taken meanwhile.

    `client` holds what it held when the plan was made. Raises `DoesNotFit` if there is no longer
    enough for any plan.
    """
    surveyed = await client.call(Survey)
    assert isinstance(surveyed, Surveyed)
    machine, devices = probe.machine(), surveyed.devices
    held = Held(machine.available.value, probe.taken_bytes(client.pid), devices)
    before = Held(ground.machine.available.value, 0, ground.described.devices)
    margin, nothing = margins(plan), Allocation(())
    is_short = any(
        now.spare_bytes * 2 < now.margin_bytes and now.spare_bytes < then.spare_bytes
        for then, now in zip(
            rooms(plan, nothing, before, margin), rooms(plan, nothing, held, margin), strict=False
        )
    )
    if not is_short:
        return ground, plan
    available = Reading(held.available + held.private, machine.available.source)
    described = structs.replace(ground.described, devices=ground.workers.timed(devices))
    ground = replace(ground, machine=replace(machine, available=available), described=described)
    made = await plan_on(client, ground, wish)
    _log.warning(
        "Other programs took memory while the plan was made, so it was made again: "
        "%s instead of %s.",
        format_size(made.total_bytes),
        format_size(plan.total_bytes),
    )
    return ground, made


def plan_opened(ground: Ground, wish: Wish, choice: Choice, allocation: Allocation) -> MemoryPlan:
    """The plan that says what is allocated."""
    return plan_as_opened(_basis(ground, wish), dry_runs.DryRun(choice, allocation))


def _basis(ground: Ground, wish: Wish) -> Basis:
    described = ground.described
    return Basis(
        described.facts,
        described.devices,
        ground.machine,
        wish,
        described.resident_bytes,
        ground.tested,
        ground.workers.left_out,
    )


def held_to(ground: Ground, wish: Wish, plan: MemoryPlan, opened: Opened) -> MemoryPlan:
    """The same plan, with a sentence for each line that llama.cpp did not keep to, and for each
    device whose memory spilled; they are logged too.
    """
    real = plan_opened(ground, wish, plan.choice, opened.allocation)
    sentences = differences(plan, real, opened.resident_bytes)
    if ground.machine.spills:
        sentences += tuple(spilled(opened.allocation, opened.devices_before, opened.devices_after))
    for sentence in sentences:
        _log.warning("The plan was not kept: %s", sentence)
    kept = tuple(sentence for sentence in plan.limits if sentence not in sentences)
    return structs.replace(plan, limits=(*sentences, *kept))
