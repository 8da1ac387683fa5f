"""Which memory a plan may use: the host's, and that of each graphics device that has its own.

A device that shares the host's memory draws from the same pool, so its bytes are counted once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from edgekv.budget.machine import MIB, Machine, Reading
from edgekv.budget.sizes import format_size
from edgekv.budget.wish import Wish
from edgekv.core.plan import DeviceInfo

HOST = "CPU"
"""ggml's name for the processor, and ours for the pool of the host's memory."""


@dataclass(frozen=True, slots=True)
class MemoryPool:
    """Memory that the devices in `device_ids` share. `budget_bytes` is what we may take of it."""

    device_ids: tuple[str, ...]
    total_bytes: int
    free_bytes: int
    budget_bytes: int
    source: str
    is_remote: bool = False
    """It is in another machine, and lent."""


@dataclass(frozen=True, slots=True)
class DeviceCap:
    """A device that shares a pool takes no more of it than this."""

    device_id: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Budget:
    """All the memory a plan may use."""

    pools: tuple[MemoryPool, ...]
    """The host's pool first."""
    cap_bytes: int | None
    """What this machine's pools may give together, if the user said so."""
    notes: tuple[str, ...]
    """Sentences about devices that are not used, and wishes that exceed the machine."""
    caps: tuple[DeviceCap, ...] = ()

    @property
    def host(self) -> MemoryPool:
        return self.pools[0]

    @property
    def local(self) -> tuple[MemoryPool, ...]:
        return tuple(pool for pool in self.pools if not pool.is_remote)

    @property
    def lent(self) -> tuple[MemoryPool, ...]:
        """What workers on other machines lend, in the order they were named in."""
        return tuple(pool for pool in self.pools if pool.is_remote)

    @property
    def local_bytes(self) -> int:
        total = sum(pool.budget_bytes for pool in self.local)
        return total if self.cap_bytes is None else min(total, self.cap_bytes)

    @property
    def total_bytes(self) -> int:
        return self.local_bytes + sum(pool.budget_bytes for pool in self.lent)

    @property
    def has_gpu(self) -> bool:
        """Whether this machine has a graphics device that a plan may use."""
        return len(self.local) > 1 or len(self.host.device_ids) > 1

    def pool_of(self, device_id: str) -> MemoryPool:
        """Where a device's buffers count; memory of no known device is the host's."""
        return next((pool for pool in self.pools if device_id in pool.device_ids), self.host)


def read_budget(devices: Iterable[DeviceInfo], machine: Machine, wish: Wish) -> Budget:
    """What may be used of the host, of every graphics device that can be judged, and of workers."""
    known = list(devices)
    graphics = [device for device in known if device.kind not in {"cpu", "rpc"}]
    sharing = [device for device in graphics if _shares_host_memory(device, machine)]
    separate = [device for device in graphics if device not in sharing]
    pools = [_host_pool(sharing, machine, wish)]
    notes = list(_host_notes(machine, wish))
    for device in separate:
        free_bytes = _own_free_bytes(device, machine)
        if free_bytes is None:
            notes.append(f"{device.id} is not used, because its free memory cannot be read.")
        else:
            pools.append(_device_pool(device, free_bytes, machine))
    pools += [_lent_pool(device) for device in known if device.kind == "rpc"]
    return Budget(tuple(pools), wish.memory_bytes, tuple(notes), _caps(sharing))


def device_reserve(total_bytes: int) -> int:
    """What stays free on a graphics device.

    Measured processes take 10 to 165 MiB more than llama.cpp's buffers there, and a desktop
    draws with the same memory. Where memory spills it is twice as much: Windows begins to move a
    process's memory before all that is free is taken, and nobody learns where that is.
    """
    return min(max(total_bytes // 16, 256 * MIB), 1024 * MIB)


def _own_free_bytes(device: DeviceInfo, machine: Machine) -> int | None:
    """What is free of memory that the host does not have; None if it cannot be read."""
    if device.unified and machine.carve_out is not None and device.free_bytes is not None:
        # Its driver adds the host's pages that it may take, and those are counted already.
        return min(device.free_bytes, machine.carve_out.value)
    return device.free_bytes


def _shares_host_memory(device: DeviceInfo, machine: Machine) -> bool:
    # Firmware can carve memory out for an integrated GPU that the host then no longer has.
    is_carved_out = (_own_free_bytes(device, machine) or 0) > machine.total.value
    return device.unified and not is_carved_out


def _caps(sharing: Iterable[DeviceInfo]) -> tuple[DeviceCap, ...]:
    # Apple's driver says how much of the host's memory it will hold. What others report as total
    # is all there is, or a carve-out that they can exceed.
    return tuple(DeviceCap(d.id, d.total_bytes) for d in sharing if d.kind == "metal")


def _host_pool(sharing: list[DeviceInfo], machine: Machine, wish: Wish) -> MemoryPool:
    available, reserve = machine.available.value, _host_reserve(machine, wish)
    budget = max(0, available - reserve.value)
    source = machine.available.source
    if reserve.value:
        source += f", less a reserve of {format_size(reserve.value)}, {reserve.source}"
    if wish.memory_bytes is not None and wish.memory_bytes < budget:
        budget, source = wish.memory_bytes, "--memory"
    return MemoryPool(
        device_ids=(HOST, *(device.id for device in sharing)),
        total_bytes=machine.total.value,
        free_bytes=available,
        budget_bytes=budget,
        source=source,
    )


def _host_reserve(machine: Machine, wish: Wish) -> Reading:
    if wish.reserve is not None:
        return Reading(wish.reserve.of(machine.total.value), f"as --reserve {wish.reserve} says")
    if wish.memory_bytes is not None:
        return Reading(0, "--memory")
    return machine.reserve


def _host_notes(machine: Machine, wish: Wish) -> Iterable[str]:
    available = machine.available.value
    if wish.memory_bytes is not None and wish.memory_bytes > available:
        yield (
            f"--memory allows {format_size(wish.memory_bytes)}, "
            f"but only {format_size(available)} of the host's memory is available now."
        )


def _device_pool(device: DeviceInfo, free_bytes: int, machine: Machine) -> MemoryPool:
    reserve, why = device_reserve(device.total_bytes), ""
    if machine.spills:
        reserve *= 2
        why = ", because Windows moves what does not fit into the host's memory, in silence"
    told = device.source or "free memory as its driver reports it"
    return MemoryPool(
        device_ids=(device.id,),
        total_bytes=device.total_bytes,
        free_bytes=free_bytes,
        budget_bytes=max(0, free_bytes - reserve),
        source=f"{told}, less a reserve of {format_size(reserve)}{why}",
    )


def _lent_pool(device: DeviceInfo) -> MemoryPool:
    # A worker says what may be taken of it, its own reserve left out.
    free_bytes = device.free_bytes or 0
    return MemoryPool(
        device_ids=(device.id,),
        total_bytes=device.total_bytes,
        free_bytes=free_bytes,
        budget_bytes=free_bytes,
        source="what the worker lends",
        is_remote=True,
    )
