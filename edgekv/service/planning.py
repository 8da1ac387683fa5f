"""A memory plan for a model file, with the numbers of an engine process that has nothing open."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from msgspec import structs

from edgekv.budget import dry_run as dry_runs
from edgekv.budget.machine import Machine, Reading
from edgekv.budget.planner import Basis, plan_memory
from edgekv.budget.probe import Probe
from edgekv.budget.replan import plan_as_opened
from edgekv.budget.room import Held, margins, rooms
from edgekv.budget.sizes import format_size
from edgekv.budget.wish import Wish
from edgekv.core.frames import Describe, Described, DryRun, DryRunDone
from edgekv.core.memory_frames import Survey, Surveyed
from edgekv.core.plan import Allocation, Choice, MemoryPlan, Opening
from edgekv.service.engine_client import EngineClient

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ground:
    """What every plan for a model on this machine stands on, read while nothing was open."""

    machine: Machine
    described: Described


async def read_ground(client: EngineClient, path: str, machine: Machine) -> Ground:
    """`machine` must have been read before `client` took any memory. Raises `ModelError`."""
    described = await client.call(lambda call: Describe(call, path))
    assert isinstance(described, Described)
    return Ground(machine, described)


async def plan_on(client: EngineClient, ground: Ground, wish: Wish) -> MemoryPlan:
    """The best plan that keeps the wish; `client` answers the dry runs. Raises `DoesNotFit`,
    `InvalidValue` or `ModelError`.
    """

    async def dry_run(opening: Opening) -> Allocation:
        reply = await client.call(lambda call: DryRun(call, opening))
        assert isinstance(reply, DryRunDone)
        return reply.allocation

    described = ground.described
    return await plan_memory(
        described.facts,
        described.devices,
        ground.machine,
        wish,
        dry_run,
        described.resident_bytes,
    )


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
    described = structs.replace(ground.described, devices=devices)
    ground = Ground(replace(machine, available=available), described)
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
    described = ground.described
    basis = Basis(
        described.facts, described.devices, ground.machine, wish, described.resident_bytes
    )
    return plan_as_opened(basis, dry_runs.DryRun(choice, allocation))
