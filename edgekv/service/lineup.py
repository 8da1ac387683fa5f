"""What a run of the gate opens side by side, and how long its texts may be in this memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as wished

from msgspec.structs import replace

from edgekv.budget.formulas import padded
from edgekv.budget.kv_types import KV_TYPES, Pair, pair_name
from edgekv.budget.machine import read_machine
from edgekv.budget.wish import Wish
from edgekv.core.frames import DryRun, DryRunDone
from edgekv.core.plan import Allocation, MemoryPlan, Opening
from edgekv.errors import Unavailable
from edgekv.quality.trials import LEAST_LENGTH
from edgekv.quality.verdicts import REFERENCE
from edgekv.service.engine_client import EngineClient
from edgekv.service.planning import Ground, plan_on, read_ground, start_engine

ROWS = 32
"""Predictions that one step gives; the output buffer has a row for each."""
OTHER_PIECES = 32
"""Tokens; libraries compute so few in other ways, and so in another order, than whole prompts."""
BRANCH_TOKENS = 320
"""More than any question or piece of prose takes after the long text, even letter by letter."""


@dataclass(frozen=True, slots=True)
class Lineup:
    """Contexts that fit at once, beside one copy of the weights."""

    ground: Ground
    reference: Opening
    candidates: tuple[Opening, ...]
    context: int
    """Tokens of a conversation that they have room for."""


async def prepare(path: str, wish: Wish, pairs: Sequence[Pair], context: int) -> Lineup:
    """For `context` tokens, or fewer where the model or memory goes less far. Raises `ModelError`,
    `DoesNotFit`, `EngineDied`, or `Unavailable` if the contexts do not fit at once.
    """
    machine = read_machine()
    client = await start_engine(wish)
    try:
        ground = await read_ground(client, path, machine)
        plan = await plan_on(client, ground, _wish(wish, pairs))
        context = min(context, plan.choice.context_length)
        least = min(LEAST_LENGTH, plan.choice.context_length // 2)
        while context - BRANCH_TOKENS >= least:
            reference, *candidates = _openings(path, wish, plan, pairs, context)
            if await _fit_together(client, plan, [reference, *candidates]):
                return Lineup(ground, reference, tuple(candidates), context)
            if len(pairs) > 1:
                # Shorter texts are for a pair that fits no other way, not for its company.
                raise Unavailable(
                    "Contexts of all these KV types do not fit at once; "
                    "test fewer of them in one run, or give more --memory."
                )
            context //= 2
    finally:
        await client.close()
    raise Unavailable(
        f"An {pair_name(REFERENCE)} context and one of {pair_name(pairs[0])} "
        "do not fit at once; give more --memory, or validate a smaller model."
    )


def _wish(wish: Wish, pairs: Sequence[Pair]) -> Wish:
    """For the pair that asks most of a plan: quantised values need flash attention."""
    key_type, value_type = max(pairs, key=lambda pair: KV_TYPES[pair[1]].is_quantised)
    return wished(wish, kv_type_k=key_type, kv_type_v=value_type)


def _openings(
    path: str, wish: Wish, plan: MemoryPlan, pairs: Sequence[Pair], context: int
) -> Iterator[Opening]:
    """The reference, then a candidate for each pair."""
    cells = padded(context)
    reference = replace(
        plan.choice,
        context_length=cells,
        cells=cells,
        slots=1,
        # One sequence id gives one row of logits.
        kept=ROWS - 2,
        host_cache_bytes=0,
        embedding_cells=0,
        kv_type_k=REFERENCE[0],
        kv_type_v=REFERENCE[1],
    )
    yield Opening(path, reference, use_mmap=wish.use_mmap)
    for pair in pairs:
        choice = replace(reference, kv_type_k=pair[0], kv_type_v=pair[1])
        if pair == REFERENCE:
            # Computed in other pieces it shows what rounding alone does.
            choice = replace(choice, ubatch=min(choice.ubatch, OTHER_PIECES))
        yield Opening(path, choice, use_mmap=wish.use_mmap)


async def _fit_together(
    client: EngineClient, plan: MemoryPlan, openings: Sequence[Opening]
) -> bool:
    """Whether all contexts fit beside one set of weights, on every device."""
    allocations = [await _allocation(client, opening) for opening in openings]
    for device in plan.devices:
        weights = sum(
            line.bytes
            for line in plan.lines
            if line.device == device.id and line.label in ("weights", "runtime")
        )
        contexts = sum(
            buffer.bytes
            for allocation in allocations
            for buffer in allocation.buffers
            if buffer.device == device.id and buffer.label != "weights"
        )
        if weights + contexts > device.budget_bytes:
            return False
    return True


async def _allocation(client: EngineClient, opening: Opening) -> Allocation:
    reply = await client.call(lambda call: DryRun(call, opening))
    assert isinstance(reply, DryRunDone)
    return reply.allocation
