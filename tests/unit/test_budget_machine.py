"""Recorded machines read as what they let a process have."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgekv.budget.machine import Machine, read_machine, system_reserve
from edgekv.budget.probe import HERE, Probe

MIB, GIB = 1024**2, 1024**3

V2_MOUNT = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNTS = (
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
)


class Recording:
    """A machine of 8 GiB with 6 GiB available and four processors, to which files are added."""

    def __init__(self, root: Path) -> None:
        self.root = root
        lines = ("MemTotal: 8388608 kB", "MemFree: 409600 kB", "MemAvailable: 6291456 kB")
        self.add("proc/meminfo", "\n".join((*lines, "SwapFree: 99999999 kB")))

    def add(self, path: str, text: str | int) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def add_groups(self, mounts: str, own: str) -> None:
        self.add("proc/self/mountinfo", mounts)
        self.add("proc/self/cgroup", own)

    def add_v2(
        self,
        group: str,
        limit: str | int,
        used: int,
        inactive_file: int = 0,
        active_file: int = 0,
    ) -> None:
        folder = f"sys/fs/cgroup/{group}"
        self.add(f"{folder}/memory.max", limit)
        self.add(f"{folder}/memory.current", used)
        cache = f"inactive_file {inactive_file}\nactive_file {active_file}"
        self.add(f"{folder}/memory.stat", f"anon 5\n{cache}")

    def add_v1(self, group: str, limit: int, used: int, inactive_file: int = 0) -> None:
        folder = f"sys/fs/cgroup/memory/{group}"
        self.add(f"{folder}/memory.limit_in_bytes", limit)
        self.add(f"{folder}/memory.usage_in_bytes", used)
        # The group's own figure counts nothing below it; the total is the one that matters.
        self.add(f"{folder}/memory.stat", f"inactive_file 1\ntotal_inactive_file {inactive_file}")

    def read(self, *cpus: int) -> Machine:
        return read_machine(self.root, affinity=cpus or range(4))


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording(tmp_path)


def test_without_groups_the_kernel_decides(recording: Recording) -> None:
    machine = recording.read()
    assert machine.total.value == 8 * GIB
    assert machine.available.value == 6 * GIB
    assert machine.available.source == "MemAvailable in /proc/meminfo"


def test_an_old_kernel_is_believed_what_is_free(recording: Recording) -> None:
    recording.add("proc/meminfo", "MemTotal: 8388608 kB\nMemFree: 409600 kB\nHugePages_Total: 0")
    machine = recording.read()
    assert machine.available.value == 400 * MIB
    assert machine.available.source == "MemFree in /proc/meminfo"


def test_memory_that_firmware_keeps_for_an_integrated_gpu_is_read(recording: Recording) -> None:
    assert recording.read().carve_out is None
    folder = "sys/class/drm/card{}/device/mem_info_vram_{}"
    recording.add(folder.format(1, "total"), 16 * GIB)
    recording.add(folder.format(1, "used"), GIB)
    carve_out = recording.read().carve_out
    assert carve_out is not None
    assert carve_out.value == 15 * GIB
    assert carve_out.source.startswith("/sys/class/drm/card1/device/mem_info_vram_total")
    recording.add(folder.format(0, "total"), GIB // 2)
    recording.add(folder.format(0, "used"), 0)
    recording.add(folder.format(2, "total"), "not told")
    least = recording.read().carve_out
    assert least is not None
    assert least.value == GIB // 2


def test_compressed_swap_adds_nothing(recording: Recording) -> None:
    recording.add("sys/block/zram0/disksize", 4 * GIB)
    recording.add("proc/swaps", "Filename Type Size\n/dev/zram0 partition 4194304 0 100")
    assert recording.read().available.value == 6 * GIB


def test_a_group_bounds_what_its_members_may_take(recording: Recording) -> None:
    recording.add_groups(V2_MOUNT, "0::/box")
    recording.add_v2("box", 2 * GIB, used=GIB // 2)
    machine = recording.read()
    assert machine.total.value == 2 * GIB
    assert machine.available.value == 3 * GIB // 2
    assert "/sys/fs/cgroup/box/memory.max" in machine.available.source


def test_a_smaller_parent_bounds_its_children(recording: Recording) -> None:
    recording.add_groups(V2_MOUNT, "0::/slice/box")
    recording.add_v2("slice/box", 4 * GIB, used=MIB)
    recording.add_v2("slice", GIB, used=100 * MIB)
    machine = recording.read()
    assert machine.total.value == GIB
    assert machine.available.value == GIB - 100 * MIB


def test_a_busy_sibling_leaves_less_under_a_common_parent(recording: Recording) -> None:
    recording.add_groups(V2_MOUNT, "0::/slice/box")
    recording.add_v2("slice/box", 2 * GIB, used=MIB)
    recording.add_v2("slice", 3 * GIB, used=5 * GIB // 2)
    machine = recording.read()
    assert machine.total.value == 2 * GIB
    assert machine.available.value == GIB // 2


def test_page_cache_nobody_needs_counts_as_free(recording: Recording) -> None:
    recording.add_groups(V2_MOUNT, "0::/box")
    recording.add_v2("box", 2 * GIB, used=2 * GIB, inactive_file=GIB)
    assert recording.read().available.value == GIB


def test_a_group_that_says_max_bounds_nothing(recording: Recording) -> None:
    recording.add_groups(V2_MOUNT, "0::/box")
    recording.add_v2("box", "max", used=GIB)
    assert recording.read().total.value == 8 * GIB


def test_a_soft_limit_counts_because_it_slows_everything_down(recording: Recording) -> None:
    recording.add_groups(V2_MOUNT, "0::/box")
    recording.add_v2("box", "max", used=0)
    recording.add("sys/fs/cgroup/box/memory.high", GIB)
    assert recording.read().available.value == GIB


def test_a_group_past_its_limit_has_nothing_to_spare(recording: Recording) -> None:
    recording.add_groups(V2_MOUNT, "0::/box")
    recording.add_v2("box", GIB, used=2 * GIB)
    assert recording.read().available.value == 0


def test_swap_adds_nothing(recording: Recording) -> None:
    recording.add_groups(V2_MOUNT, "0::/box")
    recording.add_v2("box", GIB, used=0)
    recording.add("sys/fs/cgroup/box/memory.swap.max", 64 * GIB)
    assert recording.read().available.value == GIB


def test_version_1_groups_are_read_too(recording: Recording) -> None:
    recording.add_groups(V1_MOUNTS, "4:memory:/docker/box\n3:cpu,cpuacct:/docker/box\n0::/")
    recording.add_v1("docker/box", GIB, used=600 * MIB, inactive_file=200 * MIB)
    recording.add_v1("docker", 9223372036854771712, used=900 * MIB)
    machine = recording.read()
    assert machine.total.value == GIB
    assert machine.available.value == 624 * MIB


def test_a_container_that_is_told_its_path_on_the_host_finds_its_own_group(
    recording: Recording,
) -> None:
    mount = "35 31 0:32 /docker/box /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
    recording.add_groups(mount, "4:memory:/docker/box")
    recording.add_v1("", GIB, used=0)
    assert recording.read().total.value == GIB


def test_a_path_outside_the_container_means_the_mounted_group(recording: Recording) -> None:
    recording.add_groups(V2_MOUNT, "0::/../../elsewhere")
    recording.add_v2("", GIB, used=0)
    assert recording.read().total.value == GIB


def test_a_quota_bounds_the_processors(recording: Recording) -> None:
    recording.add_groups(V2_MOUNT, "0::/slice/box")
    recording.add("sys/fs/cgroup/slice/box/cpu.max", "max 100000")
    recording.add("sys/fs/cgroup/slice/cpu.max", "250000 100000")
    machine = recording.read()
    assert machine.usable_cpus.value == 2
    assert machine.usable_cpus.source == "/sys/fs/cgroup/slice/cpu.max"


def test_less_than_one_processor_still_runs_one_thread(recording: Recording) -> None:
    recording.add_groups(V2_MOUNT, "0::/box")
    recording.add("sys/fs/cgroup/box/cpu.max", "20000 100000")
    assert recording.read().usable_cpus.value == 1


def test_a_version_1_quota_counts_and_minus_one_means_none(recording: Recording) -> None:
    recording.add_groups(V1_MOUNTS, "3:cpu,cpuacct:/box\n0::/")
    recording.add("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", 100000)
    recording.add("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", 100000)
    recording.add("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", -1)
    recording.add("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", 100000)
    assert recording.read().usable_cpus.value == 1


def test_pinning_bounds_the_processors(recording: Recording) -> None:
    assert recording.read(2).usable_cpus.value == 1


def test_two_threads_of_a_core_are_one_core(recording: Recording) -> None:
    for cpu in range(4):
        folder = f"sys/devices/system/cpu/cpu{cpu}/topology"
        recording.add(f"{folder}/thread_siblings_list", f"{cpu % 2},{cpu % 2 + 2}")
    machine = recording.read()
    assert machine.usable_cpus.value == 4
    assert machine.cores.value == 2
    assert recording.read(0, 2).cores.value == 1


@pytest.mark.parametrize(
    ("environment", "threads"),
    [
        ({"OMP_NUM_THREADS": "1"}, 1),
        ({"OMP_NUM_THREADS": "3,2"}, 3),
        ({"OMP_NUM_THREADS": "9"}, 4),
        ({"OMP_NUM_THREADS": "9", "OMP_THREAD_LIMIT": "2"}, 2),
        ({"OMP_NUM_THREADS": "0"}, 4),
        ({"OMP_NUM_THREADS": "many"}, 4),
    ],
)
def test_what_openmp_was_told_bounds_the_threads(
    recording: Recording, environment: dict[str, str], threads: int
) -> None:
    machine = read_machine(recording.root, range(4), environment)
    assert (machine.usable_cpus.value, machine.cores.value) == (threads, threads)


@pytest.mark.parametrize(
    ("total", "reserve"),
    [
        (GIB, 128 * MIB),
        (3 * GIB, 256 * MIB),
        (8 * GIB, 512 * MIB),
        (16 * GIB, GIB),
        (128 * GIB, 2 * GIB),
    ],
)
def test_the_reserve_is_a_part_with_a_floor_and_a_ceiling(total: int, reserve: int) -> None:
    assert system_reserve(total).value == reserve


def test_this_machine_can_be_read() -> None:
    machine = read_machine()
    assert 0 < machine.available.value <= machine.total.value
    assert 1 <= machine.cores.value <= machine.usable_cpus.value


def test_what_is_taken_now_leaves_out_page_cache_in_use_too(recording: Recording) -> None:
    recording.add_groups(V2_MOUNT, "0::/box")
    recording.add_v2("box", 3 * GIB, used=3 * GIB, inactive_file=GIB, active_file=GIB // 2)
    assert recording.read().available.value == GIB
    assert Probe(recording.root).available_bytes() == 3 * GIB // 2


def test_page_cache_is_never_more_than_what_the_group_holds(recording: Recording) -> None:
    """The kernel's two files are read one after the other, and may disagree."""
    recording.add_groups(V2_MOUNT, "0::/box")
    recording.add_v2("box", 3 * GIB, used=GIB, inactive_file=3 * GIB // 4, active_file=GIB // 2)
    assert Probe(recording.root).available_bytes() == 3 * GIB


def test_what_a_process_took_is_its_own_pages_and_its_childrens(recording: Recording) -> None:
    status = "VmRSS:\t 900 kB\nRssAnon:\t {} kB\nRssFile:\t 800 kB\nRssShmem:\t 1 kB"
    recording.add("proc/7/status", status.format(10))
    recording.add("proc/7/task/7/children", "")
    recording.add("proc/7/task/8/children", "9 ")
    recording.add("proc/9/status", status.format(20))
    assert Probe(recording.root).taken_bytes(7) == (10 + 1 + 20 + 1) * 1024


def test_a_process_that_is_gone_holds_nothing() -> None:
    assert HERE.taken_bytes(2**22 + 1) == 0


def test_waiting_for_memory_is_read_where_the_kernel_tells_it(recording: Recording) -> None:
    probe = Probe(recording.root)
    assert probe.stall_percent() == 0.0
    line = "some avg10=50.00 avg60=0.00 avg300=0.00 total=1\nfull avg10={} avg60=0.00 total=1"
    recording.add("proc/pressure/memory", line.format("3.25"))
    assert probe.stall_percent() == 3.25
    recording.add_groups(V2_MOUNT, "0::/box")
    recording.add("sys/fs/cgroup/box/memory.pressure", line.format("12.50"))
    assert probe.stall_percent() == 12.5
