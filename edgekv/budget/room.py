"""What is left of the memory that a plan counted on, beyond what the plan will still take.

    spare = available now - (what the plan claims - what the engine holds already)

Both sides fall alike while the engine fills its plan, so what is spare changes only with what
other programs take and give back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

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


@dataclass(frozen=True, slots=True)
class Calm:
    """A time in which nothing had to be given up, and the least that was read in it."""

    since_seconds: float
    least: Held

    def with_look(self, held: Held) -> Calm:
        least = self.least
        total = min(least.available + least.private, held.available + held.private)
        free = {device.id: device.free_bytes or 0 for device in least.devices}
        devices = tuple(
            replace(d, free_bytes=min(d.free_bytes or 0, free.get(d.id, d.free_bytes or 0)))
            for d in held.devices
        )
        lowest = Held(total - held.private, held.private, devices)
        return Calm(self.since_seconds, lowest)


def margins(plan: MemoryPlan) -> dict[str, int]:
    """What should be left of each device's memory once the plan is filled.

    What the plan left itself, for less than that is news; but no more than a reserve.
    """
    host, *others = plan.devices
    claim = _claims(plan, {host.id, *_sharing(plan)})
    found = {host.id: _margin(host, claim, system_reserve(host.total_bytes).value)}
    for device in filter(has_own_memory, others):
        reserve = device_reserve(device.total_bytes)
        found[device.id] = _margin(device, _claims(plan, {device.id}), reserve)
    return found


def rooms(
    plan: MemoryPlan, allocation: Allocation, held: Held, margins: Mapping[str, int]
) -> Iterator[Room]:
    """The host's room first, then that of each graphics device with memory of its own."""
    host, *others = plan.devices
    claim = _claims(plan, {host.id, *_sharing(plan)})
    spare = held.available - (claim - _taken_bytes(plan, allocation, held))
    idle = sum(line.bytes for line in plan.lines if line.label == "host_cache")
    yield Room(host.id, spare, idle, margins[host.id])
    infos = {device.id: device for device in held.devices}
    for device in filter(has_own_memory, others):
        info = infos.get(device.id)
        if info and info.free_bytes is not None:
            claim = _claims(plan, {device.id})
            spare = info.free_bytes - (claim - _allocated(allocation, {device.id}))
            yield Room(device.id, spare, 0, margins[device.id], is_host=False)


def has_own_memory(device: PlannedDevice) -> bool:
    """Whether it is a graphics device that a plan may use, with memory that nobody shares.

    Nobody else takes what a worker lends, so there is nothing to watch.
    """
    return device.kind not in {"cpu", "rpc"} and not device.unified and device.budget_bytes > 0


def with_given_back(plan: MemoryPlan, allocation: Allocation, held: Held) -> Held:
    """What would be read if the engine held nothing."""
    devices = tuple(
        replace(info, free_bytes=info.free_bytes + _allocated(allocation, {info.id}))
        if info.free_bytes is not None and info.kind != "cpu"
        else info
        for info in held.devices
    )
    return Held(held.available + _taken_bytes(plan, allocation, held), 0, devices)


def _taken_bytes(plan: MemoryPlan, allocation: Allocation, held: Held) -> int:
    """What of the host's memory the engine would give back if it ended."""
    # A driver's buffers are no part of what the system counts as the process's.
    return held.private + _allocated(allocation, _sharing(plan))


def _sharing(plan: MemoryPlan) -> set[str]:
    """Graphics devices that draw from the host's memory."""
    return {device.id for device in plan.devices[1:] if device.unified}


def _claims(plan: MemoryPlan, device_ids: set[str]) -> int:
    return sum(line.bytes for line in plan.lines if line.device in device_ids)


def _allocated(allocation: Allocation, device_ids: set[str]) -> int:
    return sum(b.bytes for b in allocation.buffers if b.device in device_ids)


def _margin(device: PlannedDevice, claim: int, reserve: int) -> int:
    return min(max(device.free_bytes - claim, LEAST_MARGIN), reserve)
