"""Where what was allocated is not what was planned: every start is held to its plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from edgekv.budget.sizes import format_size
from edgekv.core.plan import CostLine, Label, MemoryPlan

TOLERANCE = 0.02
ROUNDED_BYTES = 64 * 1024
"""Less is no difference: without exact sizes the library's log rounds each buffer."""


def differences(plan: MemoryPlan, opened: MemoryPlan, resident_bytes: int) -> tuple[str, ...]:
    """One sentence for each line of `plan` that `opened`, made from what was really allocated,
    says otherwise, and one if the engine already holds more than all of it.

    An estimate is off only where it was too low.
    """
    return (*_of_lines(plan, opened), *_of_residents(plan, resident_bytes))


def _of_lines(plan: MemoryPlan, opened: MemoryPlan) -> Iterator[str]:
    planned, real = _sizes(plan.lines), _sizes(opened.lines)
    estimates = {(line.device, line.label) for line in plan.lines if not line.exact}
    for key in {**planned, **real}:
        expected, found = planned.get(key, 0), real.get(key, 0)
        is_off = found > expected if key in estimates else found != expected
        if is_off and abs(found - expected) > max(TOLERANCE * expected, ROUNDED_BYTES):
            device, label = key
            yield (
                f"{label} takes {format_size(found)} on {device}, "
                f"and {format_size(expected)} were planned."
            )


def _of_residents(plan: MemoryPlan, resident_bytes: int) -> Iterator[str]:
    if resident_bytes > (1 + TOLERANCE) * plan.total_bytes:
        yield (
            f"The engine holds {format_size(resident_bytes)} before its first token, "
            f"and {format_size(plan.total_bytes)} were planned in all."
        )


def _sizes(lines: Iterable[CostLine]) -> dict[tuple[str, Label], int]:
    sizes: dict[tuple[str, Label], int] = {}
    for line in lines:
        key = line.device, line.label
        sizes[key] = sizes.get(key, 0) + line.bytes
    return sizes
