"""What memory and processors this machine lets us have, and how each number was read."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from edgekv.budget import cgroups

MIB = 1024**2
_LEAST_RESERVED, _MOST_RESERVED = 256 * MIB, 2048 * MIB
_MEMINFO = re.compile(r"^(\w+):\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reading:
    """A number, and one phrase that says where it comes from."""

    value: int
    source: str


@dataclass(frozen=True, slots=True)
class Machine:
    """The host. Sizes are bytes; graphics memory is in `core.plan.DeviceInfo`."""

    total: Reading
    """What this process could have at most: installed memory or a control group's limit."""
    available: Reading
    """What it can take now without anything being swapped out or killed."""
    reserve: Reading
    """The part of `available` that stays with the rest of the system."""
    usable_cpus: Reading
    """Logical processors this process may run on."""
    cores: Reading
    """Threads that compute best: two on one core only wait for each other."""
    carve_out: Reading | None = None
    """What is free of memory that firmware keeps from the host for an integrated AMD GPU; None
    where no driver tells. It is no part of `total`.
    """
    spills: bool = False
    """Windows manages the memory of graphics devices, and moves what does not fit into the host's
    in silence, where other systems refuse it.
    """


def read_machine(
    root: Path = Path("/"),
    affinity: Iterable[int] | None = None,
    environment: Mapping[str, str] = os.environ,
    system: str = sys.platform,
) -> Machine:
    """Read the host below `root`, or a recording of it.

    `affinity` holds the numbers of the processors this process may run on; None asks the system.
    `system` is as `sys.platform`.
    """
    total, available = _memory(root)
    cpus = frozenset(_affinity() if affinity is None else affinity)
    quotas = [Reading(max(1, int(quota.cpus)), quota.source) for quota in cgroups.cpu_quotas(root)]
    told = list(_told_to_openmp(environment))
    usable = _smallest(Reading(len(cpus), "the process's affinity"), *quotas, *told)
    cores = _smallest(Reading(_count_cores(root, cpus), "cores of the usable CPUs"), usable)
    reserve = system_reserve(total.value)
    spills = system == "win32" or (is_wsl(root) and (root / "dev/dxg").exists())
    return Machine(total, available, reserve, usable, cores, _carve_out(root), spills)


def is_wsl(root: Path = Path("/")) -> bool:
    """Whether this is a Linux that Windows runs."""
    return "microsoft" in cgroups.text_of(root / "proc/version").lower()


def read_available_beside_files(root: Path = Path("/")) -> Reading:
    """What could be taken if all page cache were dropped, mapped weights too.

    `Machine.available` counts as little of a control group's page cache as a careful plan should;
    this counts all of it, as MemAvailable does, so that it does not change with what is mapped.
    """
    limits = cgroups.memory_limits(root)
    spares = [Reading(limit.spare_beside_files_bytes, limit.source) for limit in limits]
    return _smallest(_host_memory(root)[1], *spares)


def system_reserve(total_bytes: int) -> Reading:
    """What a machine of this size keeps for everything else that runs on it.

    A sixteenth leaves a laptop's browser its next few pages. The floor is what a desktop
    or Jetson allocates between two looks at it; a small container has no desktop in it. The
    ceiling keeps large machines from leaving memory idle.
    """
    part, eighth = total_bytes // 16, total_bytes // 8
    if part > _MOST_RESERVED:
        return Reading(_MOST_RESERVED, "the most that is kept")
    if part >= min(_LEAST_RESERVED, eighth):
        return Reading(part, "a sixteenth of all memory")
    if eighth < _LEAST_RESERVED:
        return Reading(eighth, "an eighth of all memory")
    return Reading(_LEAST_RESERVED, "the least that is kept")


def _memory(root: Path) -> tuple[Reading, Reading]:
    """Total and available bytes, with every control group's limit applied."""
    limits = list(cgroups.memory_limits(root))
    totals = [Reading(limit.limit_bytes, limit.source) for limit in limits]
    spares = [Reading(limit.spare_bytes, f"{limit.source} less what is used") for limit in limits]
    total, available = _host_memory(root)
    # A group may be allowed more than there is, or stand unlimited at a huge number.
    return _smallest(total, *totals), _smallest(available, *spares)


def _host_memory(root: Path) -> tuple[Reading, Reading]:
    try:
        text = (root / "proc/meminfo").read_text()
    except OSError:
        memory = psutil.virtual_memory()
        return Reading(memory.total, "the system"), Reading(memory.available, "the system")
    kib = {name: int(number) for name, number in _MEMINFO.findall(text)}
    # Kernels before 3.14 do not tell what is available; what is free is less than that.
    available = "MemAvailable" if "MemAvailable" in kib else "MemFree"
    total, free = kib["MemTotal"] * 1024, kib[available] * 1024
    return (
        Reading(total, "MemTotal in /proc/meminfo"),
        Reading(free, f"{available} in /proc/meminfo"),
    )


def _carve_out(root: Path) -> Reading | None:
    """What AMD's driver calls VRAM, of several devices the least, for a card has more than firmware
    spares. Beside it an integrated GPU takes pages of the host (GTT), which drivers add to it.
    """
    folders = sorted(root.glob("sys/class/drm/card*/device"))
    found = [reading for folder in folders if (reading := _vram(folder, root))]
    return min(found, key=lambda reading: reading.value, default=None)


def _vram(folder: Path, root: Path) -> Reading | None:
    total, used = (cgroups.text_of(folder / f"mem_info_vram_{name}") for name in ("total", "used"))
    if not (total.isdigit() and used.isdigit()):
        return None
    source = f"/{folder.relative_to(root)}/mem_info_vram_total less what is used"
    return Reading(max(0, int(total) - int(used)), source)


def _smallest(*readings: Reading) -> Reading:
    return min(readings, key=lambda reading: reading.value)


def _affinity() -> Iterable[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)


def _told_to_openmp(environment: Mapping[str, str]) -> Iterator[Reading]:
    """What a user said to every program that computes with OpenMP, as llama.cpp does."""
    for name in ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT"):
        # The first may be a list, a number for each level of nested regions.
        number = environment.get(name, "").partition(",")[0].strip()
        if number.isdigit() and int(number) > 0:
            yield Reading(int(number), name)


def _count_cores(root: Path, cpus: frozenset[int]) -> int:
    """Cores that `cpus` sit on; all of them are told apart where the topology is not known."""
    return len({_siblings(root, cpu) for cpu in cpus})


def _siblings(root: Path, cpu: int) -> str:
    path = root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
    try:
        return path.read_text().strip()
    except OSError:
        return str(cpu)
