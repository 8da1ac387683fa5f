"""What a machine lends to others: its graphics devices, or the host's memory where it has none.

It is what a plan could use here, so what a plan would leave to the rest stays free.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from edgekv.budget.devices import HOST, Budget, read_budget
from edgekv.budget.machine import Machine
from edgekv.budget.wish import Wish
from edgekv.core.plan import DeviceInfo


@dataclass(frozen=True, slots=True)
class Loan:
    device_id: str
    """ggml's name."""
    name: str
    bytes: int
    source: str
    """How the number was read."""


def loans(
    devices: Iterable[DeviceInfo], machine: Machine, wish: Wish
) -> tuple[tuple[Loan, ...], tuple[str, ...]]:
    """What is lent, at most `wish.memory_bytes` in all, and sentences about what is not."""
    known = {device.id: device for device in devices}
    budget = read_budget(known.values(), machine, wish)
    offered: list[Loan] = []
    for device_id, num_bytes, source in _offers(budget):
        rest = budget.total_bytes - sum(loan.bytes for loan in offered)
        if (lent := min(num_bytes, rest)) > 0:
            name = known[device_id].name if device_id in known else "processor"
            offered.append(Loan(device_id, name, lent, source))
    return tuple(offered), budget.notes


def _offers(budget: Budget) -> Iterator[tuple[str, int, str]]:
    for pool in (*budget.pools[1:], budget.host):
        graphics = [device_id for device_id in pool.device_ids if device_id != HOST]
        if graphics or not budget.has_gpu:
            yield next(iter(graphics), HOST), pool.budget_bytes, pool.source
