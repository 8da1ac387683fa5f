"""A plan for a machine that is not here."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from edgekv.budget.recorded import NOT_HERE, RecordedMachine
from edgekv.budget.wish import Wish
from edgekv.core.plan import MemoryPlan, ModelFacts
from edgekv.errors import ModelError
from edgekv.models.forecast import Place
from edgekv.models.gguf_walk import walk_file
from edgekv.models.header_plan import plan_from_header
from edgekv.service.engine_client import EngineClient
from edgekv.service.ground import Ground, read_ground
from edgekv.service.planning import plan_on


async def plan_elsewhere(
    path: str, wish: Wish, there: RecordedMachine
) -> tuple[MemoryPlan, ModelFacts]:
    """What the model at `path` would get there; the first of its limits says that it is not here.

    On a host without graphics llama.cpp's own allocator is asked, as for a plan here. Drivers that
    are not here cannot be asked, so what depends on them is estimated. Raises as a plan here.
    """
    if there.devices:
        place = Place(there.machine, there.devices)
        reason = "Drivers of another machine cannot be asked."
        try:
            header = walk_file(Path(path))
        except OSError as error:
            raise ModelError(f"{path} cannot be read: {error.strerror}.") from None
        made = await plan_from_header(header, path, place, wish, reason)
        plan, facts = made.plan, made.facts
    else:
        plan, facts = await _on_a_host_like_this(path, wish, there)
    note = f"{NOT_HERE} it is planned for {there.title}."
    return structs.replace(plan, limits=(note, *plan.limits)), facts


async def _on_a_host_like_this(
    path: str, wish: Wish, there: RecordedMachine
) -> tuple[MemoryPlan, ModelFacts]:
    client = await EngineClient.start()
    try:
        ground = await read_ground(client, path, there.machine)
        described = structs.replace(ground.described, devices=())
        plan = await plan_on(client, Ground(there.machine, described), wish)
    finally:
        await client.close()
    return plan, described.facts
