"""What is being planned: a model, the user's wishes and what the machine is good for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgekv.budget.geometry import Geometry
from edgekv.budget.metadata import ModelKeys
from edgekv.budget.outcomes import Outcome
from edgekv.budget.wish import Wish
from edgekv.core.plan import ModelFacts

ENOUGH_CONTEXT = 8192
"""Tokens of a conversation that people can work with."""
LEAST_CONTEXT = 512
"""Below this a slot is not worth opening."""
LONGEST_CONTEXT = 2**20
"""What a plan takes by itself, whatever a file claims to be trained on."""

RANKING = 4
"""LLAMA_POOLING_TYPE_RANK."""


@dataclass(frozen=True, slots=True)
class Case:
    facts: ModelFacts
    geometry: Geometry | None
    wish: Wish
    most_slots: int
    threads: int
    gpu_layers: int
    tested: tuple[Outcome, ...] = ()
    """Outcomes of the gate on this model."""
    host_experts: int = 0
    """Layers whose experts stay on the host."""
    worker_layers: tuple[int, ...] = ()
    """How many of `gpu_layers` each device of a worker holds."""

    @property
    def longest_context(self) -> int:
        return min(self.facts.context_train or ENOUGH_CONTEXT, LONGEST_CONTEXT)

    @property
    def least_context(self) -> int:
        """The context below which no plan is made by itself."""
        return min(self.longest_context, LEAST_CONTEXT)

    @property
    def all_layers(self) -> int:
        """GPU layers that leave none to the CPU: llama.cpp counts the output as one."""
        return self.facts.num_layers + 1

    @property
    def can_embed(self) -> bool:
        """Whether the model gives vectors; one that ranks texts gives a number."""
        keys = ModelKeys(self.facts.metadata)
        return keys.number("pooling_type") != RANKING

    @property
    def enough_context(self) -> int:
        """The context to reach for every slot before anything else."""
        return self.wish.context_length or min(self.longest_context, ENOUGH_CONTEXT)


def with_wish(case: Case, **changes: int | str | None) -> Case:
    """The same case with other wishes."""
    return replace(case, wish=replace(case.wish, **changes))  # type: ignore[arg-type]
