"""A memory plan for a model file, with the numbers of an engine process that has nothing open."""

from __future__ import annotations

from dataclasses import dataclass

from edgekv.budget.machine import Machine
from edgekv.budget.planner import plan_memory
from edgekv.budget.wish import Wish
from edgekv.core.frames import Describe, Described, DryRun, DryRunDone
from edgekv.core.plan import Allocation, MemoryPlan, Opening
from edgekv.service.engine_client import EngineClient


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
