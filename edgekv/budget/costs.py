"""What a little more would cost: for the people who read a plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from edgekv.budget.formulas import (
    Pool,
    attention_bytes,
    kv_bytes,
    output_bytes,
    state_bytes,
)
from edgekv.budget.geometry import Geometry, read_geometry
from edgekv.budget.ledger import growth_bytes
from edgekv.core.plan import CELL_PADDING, Choice, ModelFacts


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Bytes. Negative never; 0 where a model takes nothing for it."""

    token: int
    """The keys and values of one more token, in layers that see everything."""
    thousand_tokens: int
    """1,024 more tokens in the pool, with what grows beside their keys and values."""
    slot: int
    """One more slot with room for a whole conversation of its own."""
    sharing_slot: int
    """One more slot that shares the pool as it is."""


def step_costs(facts: ModelFacts, choice: Choice) -> StepCosts | None:
    """What the next step up from `choice` costs; None where no closed form is known."""
    geometry = read_geometry(facts.metadata)
    if geometry is None:
        return None
    now = _closed_form_bytes(facts, geometry, choice)

    def more(**changes: int) -> int:
        return _closed_form_bytes(facts, geometry, replace(choice, **changes)) - now

    slots, cells = choice.slots + 1, choice.cells
    one_step = kv_bytes(geometry, *_kv(replace(choice, cells=cells + CELL_PADDING)))
    return StepCosts(
        token=(one_step - kv_bytes(geometry, *_kv(choice))) // CELL_PADDING,
        thousand_tokens=more(cells=cells + 1024),
        slot=more(slots=slots, cells=cells + choice.context_length),
        sharing_slot=more(slots=slots),
    )


def _closed_form_bytes(facts: ModelFacts, geometry: Geometry, choice: Choice) -> int:
    parts: Iterable[int] = (
        kv_bytes(geometry, *_kv(choice)),
        state_bytes(geometry, choice.num_ids),
        attention_bytes(geometry, Pool.of(choice)),
        output_bytes(facts.num_vocab, choice.num_ids),
        growth_bytes(geometry, facts.num_vocab, choice),
    )
    return sum(parts)


def _kv(choice: Choice) -> tuple[Pool, str, str]:
    return Pool.of(choice), choice.kv_type_k, choice.kv_type_v
