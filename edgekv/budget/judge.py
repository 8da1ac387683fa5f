"""Whether a choice fits: for sure after a dry run, by estimate from another one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edgekv.budget.devices import Budget, MemoryPool
from edgekv.budget.dry_run import Allocator, DryRun
from edgekv.budget.estimate import estimate
from edgekv.budget.formulas import state_bytes
from edgekv.budget.ledger import Engine, cost_lines
from edgekv.budget.search import Spare
from edgekv.core.plan import Choice, CostLine


@dataclass(frozen=True, slots=True)
class Judge:
    budget: Budget
    engine: Engine
    allocator: Allocator

    async def run(self, choice: Choice) -> DryRun:
        """Ask the library's allocator. Raises `ModelError` where it refuses."""
        return await self.allocator.run(choice)

    def may_run(self, choice: Choice) -> bool:
        """Whether a dry run is harmless: it takes the memory of recurrent layers for real."""
        return self.known_bytes(choice) <= self.budget.total_bytes

    def known_bytes(self, choice: Choice) -> int:
        """What a choice takes before any cell: the weights and its recurrent state."""
        facts, geometry = self.engine.facts, self.engine.geometry
        state = 0 if geometry is None else state_bytes(geometry, choice.num_ids)
        return facts.weight_bytes + state if state else 0

    def lines(self, run: DryRun) -> tuple[CostLine, ...]:
        return cost_lines(self.engine, run.choice, run.allocation)

    def needed_bytes(self, run: DryRun) -> int:
        return sum_bytes(self.lines(run))

    def spare_bytes(self, run: DryRun) -> int:
        """What the scarcest memory has left; negative if the choice does not fit."""
        lines = self.lines(run)
        lent = (self.spare_in(pool, lines) for pool in self.budget.lent)
        return min([self.spare_here(lines), *lent])

    def spare_here(self, lines: Sequence[CostLine]) -> int:
        """The same of this machine's memory alone."""
        in_pools = (self.spare_in(pool, lines) for pool in self.budget.local)
        under_caps = (
            cap.bytes - sum_bytes(line for line in lines if line.device == cap.device_id)
            for cap in self.budget.caps
        )
        here = (line for line in lines if not self.budget.pool_of(line.device).is_remote)
        return min(self.budget.local_bytes - sum_bytes(here), *in_pools, *under_caps)

    def spare_in(self, pool: MemoryPool, lines: Sequence[CostLine]) -> int:
        taken = (line for line in lines if self.budget.pool_of(line.device) is pool)
        return pool.budget_bytes - sum_bytes(taken)

    def spare_by_estimate(self, run: DryRun) -> Spare:
        """How other choices would do, judged from one dry run; exact where there was one."""
        geometry, num_vocab = self.engine.geometry, self.engine.facts.num_vocab

        def spare(choice: Choice) -> int:
            if (known := self.allocator.known(choice)) is not None:
                return self.spare_bytes(known)
            allocation = estimate(run, geometry, num_vocab, choice)
            return self.spare_bytes(DryRun(choice, allocation))

        return spare


def sum_bytes(lines: Iterable[CostLine]) -> int:
    return sum(line.bytes for line in lines)
