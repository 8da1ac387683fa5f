"""Where what was allocated is not what was planned: every start is held to its plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from edgekv.budget.sizes import format_size
from edgekv.core.plan import Allocation, CostLine, DeviceInfo, Label, MemoryPlan

TOLERANCE = 0.02
SPILLED = 0.25
"""Of what was allocated on a device, at least so much is missing from what its memory lost,"""
SPILLED_BYTES = 256 * 1024**2
"""and at least so many bytes, for a desktop gives some back meanwhile."""
ROUNDED_BYTES = 64 * 1024
"""Less is no difference: without exact sizes the library's log rounds each buffer."""


def differences(plan: MemoryPlan, opened: MemoryPlan, resident_bytes: int) -> tuple[str, ...]:
    """One sentence for each line of `plan` that `opened`, made from what was really allocated,
    says otherwise, and one if the engine already holds more than all of it.

    An estimate is off only where it was too low.
    """
    return (*_of_lines(plan, opened), *_of_residents(plan, resident_bytes))


def spilled(
    allocation: Allocation, before: Iterable[DeviceInfo], after: Iterable[DeviceInfo]
) -> Iterator[str]:
    """One sentence for each device whose free memory fell by much less than what was allocated
    there between `before` and `after`: its driver put the rest elsewhere.
    """
    left = {device.id: device.free_bytes for device in after}
    for device in before:
        now = left.get(device.id)
        allocated = sum(b.bytes for b in allocation.buffers if b.device == device.id)
        if device.unified or device.free_bytes is None or now is None:
            continue
        fell = device.free_bytes - now
        if allocated - fell > max(SPILLED * allocated, SPILLED_BYTES):
            yield (
                f"Memory of {device.id} spilled: {format_size(allocated)} were allocated there, "
                f"but its free memory fell by {format_size(max(0, fell))}; the rest went to the "
                "host's memory, which is much slower. Close what uses the device, or take fewer "
                "--gpu-layers."
            )


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
