"""What Linux control groups allow this process, versions 1 and 2.

A group's limit counts everything below it, so each group from this process's own up to
the top can be the one that bounds it. Everything is read below `root`, so that recorded
machines can be read as well as this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """What a group may hold, and what it holds beside page cache that nobody touched lately."""

    limit_bytes: int
    held_bytes: int
    busy_cache_bytes: int
    """Part of `held_bytes`: page cache in use, which is dropped too before anything is killed.
    Mapped weights are in it."""
    source: str

    @property
    def spare_bytes(self) -> int:
        """What it may still take without dropping what is in use."""
        return max(0, self.limit_bytes - self.held_bytes)

    @property
    def spare_beside_files_bytes(self) -> int:
        """What it may still take if all page cache is dropped."""
        return max(0, self.limit_bytes - self.held_bytes + self.busy_cache_bytes)


@dataclass(frozen=True, slots=True)
class CpuQuota:
    """Processors' worth of time the group gets; below 1 it is a share of one."""

    cpus: float
    source: str


@dataclass(frozen=True, slots=True)
class _Files:
    """What a version calls its files; all but `limits` stand in the same folder."""

    limits: tuple[str, ...]
    usage: str
    idle_cache: str
    busy_cache: str


# Swap is counted neither way: paged weights are the end of speed.
_V2 = _Files(("memory.max", "memory.high"), "memory.current", "inactive_file", "active_file")
_V1 = _Files(
    ("memory.limit_in_bytes",),
    "memory.usage_in_bytes",
    "total_inactive_file",
    "total_active_file",
)


def memory_limits(root: Path) -> Iterator[MemoryLimit]:
    """The limit of every group that has one, this process's own first."""
    for folder in groups(root, "memory"):
        files = _V2 if (folder / "memory.max").exists() else _V1
        limits = [_number(folder / name) for name in files.limits]
        used = _number(folder / files.usage)
        for name, limit in zip(files.limits, limits, strict=True):
            if limit is not None and used is not None:
                held = max(0, used - _statistic(folder / "memory.stat", files.idle_cache))
                busy = _statistic(folder / "memory.stat", files.busy_cache)
                yield MemoryLimit(limit, held, min(busy, held), _shown(root, folder / name))


def cpu_quotas(root: Path) -> Iterator[CpuQuota]:
    """The processor time of every group that has a quota, this process's own first."""
    for folder in groups(root, "cpu"):
        both = text_of(folder / "cpu.max").split()
        name = "cpu.max" if both else "cpu.cfs_quota_us"
        quota, period = both or (text_of(folder / name), text_of(folder / "cpu.cfs_period_us"))
        if quota.isdigit() and period.isdigit() and int(period) > 0:
            yield CpuQuota(int(quota) / int(period), _shown(root, folder / name))


def groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of the groups this process is in, from its own up to the mounted one."""
    memberships = _memberships(root)
    for line in text_of(root / "proc/self/mountinfo").splitlines():
        mount, _, source = line.partition(" - ")
        top, mount_point = mount.split()[3:5]
        kind, _, options = source.split(maxsplit=2)
        key = "" if kind == "cgroup2" else controller
        if kind == "cgroup2" or (kind == "cgroup" and controller in options.split(",")):
            group = _below(PurePosixPath(memberships.get(key, "/")), top)
            mounted = root / mount_point.lstrip("/")
            yield from (mounted / part for part in (group, *group.parents))


def _memberships(root: Path) -> dict[str, str]:
    """Path of this process's group by controller; version 2 stands under ""."""
    lines = (line.split(":", 2) for line in text_of(root / "proc/self/cgroup").splitlines())
    return {name: path for _, names, path in lines for name in names.split(",")}


def _below(group: PurePosixPath, top: str) -> PurePosixPath:
    """The group as seen from a mount that shows only what is below `top`."""
    # A container may be told its group's path on the host, and see none of it but its own.
    if ".." in group.parts or not group.is_relative_to(top):
        return PurePosixPath()
    return group.relative_to(top)


def _statistic(path: Path, name: str) -> int:
    lines = (line.split() for line in text_of(path).splitlines())
    return next((int(line[1]) for line in lines if line[0] == name), 0)


def _number(path: Path) -> int | None:
    """None where there is no such file, or it says "max"."""
    text = text_of(path)
    return int(text) if text.isdigit() else None


def text_of(path: Path) -> str:
    """What stands in a file; nothing if it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _shown(root: Path, path: Path) -> str:
    return f"/{path.relative_to(root)}"
