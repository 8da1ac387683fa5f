"""What is left of the memory that a plan counted on, beyond what the plan will still take.

    spare = available now - (what the plan claims - what the engine holds already)

Both sides fall alike while the engine fills its plan, so what is spare changes only with what
other programs take and give back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from edgekv.budget.devices import device_reserve
from edgekv.budget.machine import MIB, system_reserve
from edgekv.budget.pressure import Room
from edgekv.core.plan import Allocation, DeviceInfo, MemoryPlan, PlannedDevice

LEAST_MARGIN = 64 * MIB
"""Where a plan was given all there is, so much is still too little to be sure of."""


@dataclass(frozen=True, slots=True)
class Held:
    """What was read while a model is open. All are bytes."""

    available: int
    """What could be taken of the host's memory, with all page cache dropped."""
    private: int
    """What the engine's processes hold that is not page cache."""
    devices: tuple[DeviceInfo, ...]
    """Graphics devices as their drivers report them now."""


def rooms(plan: MemoryPlan, allocation: Allocation, held: Held) -> Iterator[Room]:
    """The host's room first, then that of each graphics device with memory of its own."""
    host, *others = plan.devices
    shared = {host.id, *(device.id for device in others if device.unified)}
    claim = _claims(plan, shared)
    spare = held.available - (claim - taken_bytes(plan, allocation, held))
    idle = sum(line.bytes for line in plan.lines if line.label == "host_cache")
    reserve = system_reserve(host.total_bytes).value
    yield Room(host.id, spare, idle, _margin(host, claim, reserve))
    infos = {device.id: device for device in held.devices}
    for device in others:
        info = infos.get(device.id)
        if device.id not in shared and device.budget_bytes and info and info.free_bytes is not None:
            claim = _claims(plan, {device.id})
            spare = info.free_bytes - (claim - _allocated(allocation, {device.id}))
            margin = _margin(device, claim, device_reserve(device.total_bytes))
            yield Room(device.id, spare, 0, margin, is_host=False)


def taken_bytes(plan: MemoryPlan, allocation: Allocation, held: Held) -> int:
    """What of the host's memory the engine would give back if it ended."""
    shared = {device.id for device in plan.devices[1:] if device.unified}
    # A driver's buffers are no part of what the system counts as the process's.
    return held.private + _allocated(allocation, shared)


def _claims(plan: MemoryPlan, device_ids: set[str]) -> int:
    return sum(line.bytes for line in plan.lines if line.device in device_ids)


def _allocated(allocation: Allocation, device_ids: set[str]) -> int:
    return sum(b.bytes for b in allocation.buffers if b.device in device_ids)


def _margin(device: PlannedDevice, claim: int, reserve: int) -> int:
    """What the plan left, for less than that is news; but no more than a reserve."""
    return min(max(device.free_bytes - claim, LEAST_MARGIN), reserve)
