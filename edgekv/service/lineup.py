"""What a run of the gate opens side by side, and how long its texts may be in this memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as wished

from msgspec.structs import replace

from edgekv.budget.formulas import padded
from edgekv.budget.kv_types import KV_TYPES, Pair, pair_name
from edgekv.budget.machine import read_machine
from edgekv.budget.wish import Wish
from edgekv.core.frames import DryRun, DryRunDone
from edgekv.core.plan import MemoryPlan, Opening
from edgekv.errors import Unavailable
from edgekv.quality.trials import LEAST_LENGTH
from edgekv.quality.verdicts import REFERENCE
from edgekv.service.engine_client import EngineClient
from edgekv.service.ground import Ground, read_ground
from edgekv.service.planning import plan_on
from edgekv.service.starting import start_engine

ROWS = 32
"""Predictions that one step gives; the output buffer has a row for each."""
OTHER_PIECES = 32
"""Tokens; libraries compute so few in other ways, and so in another order, than whole prompts."""
BRANCH_TOKENS = 320
"""More than any question or piece of prose takes after the long text, even letter by letter."""


@dataclass(frozen=True, slots=True)
class Lineup:
    """Contexts that fit at once, beside one copy of the weights."""

    reference: Opening
    candidates: dict[Pair, Opening]
    """The pair of the reference stands for the reference computed in other pieces."""


@dataclass(frozen=True, slots=True)
class Prepared:
    ground: Ground
    context: int
    """Tokens of a conversation that there is room for."""
    lineups: tuple[Lineup, ...]
    """One of all pairs, or one a pair where memory is too short for that."""


async def prepare(path: str, wish: Wish, pairs: Sequence[Pair], context: int) -> Prepared:
    """For `context` tokens, or fewer where the model or memory goes less far. Raises `ModelError`,
    `DoesNotFit`, `EngineDied`, or `Unavailable` if not even two contexts fit at once.
    """
    machine = read_machine()
    client = await start_engine(wish)
    try:
        ground = await read_ground(client, path, machine)
        plan = await plan_on(client, ground, _wish(wish, pairs))
        context = min(context, plan.choice.context_length)
        least = min(LEAST_LENGTH, plan.choice.context_length // 2)
        while context - BRANCH_TOKENS >= least:
            reference, candidates = _openings(path, wish, plan, pairs, context)
            room = await _Room.beside(client, plan, [reference, *candidates.values()])
            for lineups in _lineups(reference, candidates):
                if all(map(room.holds, lineups)):
                    return Prepared(ground, context, lineups)
            context //= 2
    finally:
        await client.close()
    raise Unavailable(
        f"A {pair_name(REFERENCE)} context and another do not fit at once; "
        "give more --memory, or validate a smaller model."
    )


def _lineups(reference: Opening, candidates: dict[Pair, Opening]) -> Iterator[tuple[Lineup, ...]]:
    """What to try, best first: all at once compute the reference once."""
    yield (Lineup(reference, candidates),)
    yield tuple(Lineup(reference, {pair: one}) for pair, one in candidates.items())


def _wish(wish: Wish, pairs: Sequence[Pair]) -> Wish:
    """For the pair that asks most of a plan: quantised values need flash attention."""
    key_type, value_type = max(pairs, key=lambda pair: KV_TYPES[pair[1]].is_quantised)
    return wished(wish, kv_type_k=key_type, kv_type_v=value_type)


def _openings(
    path: str, wish: Wish, plan: MemoryPlan, pairs: Sequence[Pair], context: int
) -> tuple[Opening, dict[Pair, Opening]]:
    """The reference, and a candidate for each pair."""
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
    choices = {pair: replace(reference, kv_type_k=pair[0], kv_type_v=pair[1]) for pair in pairs}
    if REFERENCE in choices:
        choices[REFERENCE] = replace(reference, ubatch=min(reference.ubatch, OTHER_PIECES))
    return Opening(path, reference, wish.use_mmap), {
        pair: Opening(path, choice, wish.use_mmap) for pair, choice in choices.items()
    }


@dataclass(frozen=True, slots=True)
class _Room:
    """What contexts take, and what there is for them, by device."""

    taken: dict[Opening, Counter[str]]
    """Bytes of each context, without weights."""
    left: dict[str, int]
    """Bytes beside one copy of the weights."""

    @classmethod
    async def beside(
        cls, client: EngineClient, plan: MemoryPlan, openings: Sequence[Opening]
    ) -> _Room:
        taken = {opening: await _taken(client, opening) for opening in openings}
        left = {device.id: device.budget_bytes for device in plan.devices}
        for line in plan.lines:
            if line.label in ("weights", "runtime"):
                left[line.device] -= line.bytes
        return cls(taken, left)

    def holds(self, lineup: Lineup) -> bool:
        contexts = [lineup.reference, *lineup.candidates.values()]
        return all(
            sum(self.taken[context][device] for context in contexts) <= left
            for device, left in self.left.items()
        )


async def _taken(client: EngineClient, opening: Opening) -> Counter[str]:
    reply = await client.call(lambda call: DryRun(call, opening))
    assert isinstance(reply, DryRunDone)
    taken = Counter[str]()
    for buffer in reply.allocation.buffers:
        if buffer.label != "weights":
            taken[buffer.device] += buffer.bytes
    return taken
