"""Machines as their own files tell of them, written below a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from edgekv.core.library import LibraryFacts
from edgekv.core.plan import DeviceInfo
from edgekv.doctor.host import Host

GIB = 1024**3

PROCESSOR = DeviceInfo("CPU", "cpu", "a processor", 16 * GIB, None, False)
LIBRARY = LibraryFacts(
    version="0.3.36",
    path="/opt/llama_cpp/lib/libllama.so",
    loaded=("/usr/lib/libgomp.so.1",),
    backends=("CPU",),
    features=frozenset({"SSE3", "SSSE3", "AVX", "AVX2", "FMA", "F16C", "BMI2", "OPENMP"}),
    devices=(PROCESSOR,),
    has_bundled_path=True,
    glibc="glibc 2.36",
)
# The flags that matter here, as /proc/cpuinfo of such machines lists them.
HASWELL = "fpu sse sse2 pni ssse3 sse4_1 sse4_2 avx f16c fma avx2 bmi1 bmi2"
GOLDMONT = "fpu sse sse2 pni ssse3 sse4_1 sse4_2 rdrand sha_ni"
CORTEX_A78AE = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop "
    "asimddp uscat ilrcpc flagm paca pacg"
)


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n", encoding="utf-8")


def memory(total_gib: int, available_gib: int) -> str:
    return f"MemTotal: {total_gib * 1024**2} kB\nMemAvailable: {available_gib * 1024**2} kB"


def silent(_: Sequence[str]) -> str | None:
    return None


def host(
    root: Path,
    files: Mapping[str, str],
    ask: Callable[[Sequence[str]], str | None] = silent,
) -> Host:
    """A Linux machine of four processors with those files."""
    write(root, {"proc/meminfo": memory(16, 12)} | dict(files))
    return Host(root, {}, "linux", "x86_64", frozenset(range(4)), is_bundle=False, ask=ask)


def laptop(root: Path) -> Host:
    return host(
        root,
        {
            "proc/cpuinfo": f"processor : 0\nflags\t\t: {HASWELL}",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver": "intel_pstate",
            "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
            "sys/class/drm/card0/device/vendor": "0x8086",
        },
    )


def orin(root: Path, mode: str = "15W") -> Host:
    """A Jetson Orin Nano, hot, with zram as all of them have."""
    zone = "sys/devices/virtual/thermal/thermal_zone0"
    found = host(
        root,
        {
            "proc/meminfo": memory(8, 6),
            "proc/device-tree/model": "NVIDIA Jetson Orin Nano Developer Kit\0",
            "proc/cpuinfo": f"processor : 0\nFeatures\t: {CORTEX_A78AE}",
            "proc/swaps": "Filename Type Size Used Priority\n/dev/zram0 partition 651716 0 5",
            "etc/nvpmodel.conf": "< POWER_MODEL ID=0 NAME=15W >\n"
            "< POWER_MODEL ID=2 NAME=MAXN_SUPER >",
            f"{zone}/type": "cpu-thermal",
            f"{zone}/temp": "99500",
            f"{zone}/trip_point_0_type": "passive",
            f"{zone}/trip_point_0_temp": "99000",
        },
        lambda command: f"NV Power Mode: {mode}\n0" if command[0] == "nvpmodel" else None,
    )
    (root / "sys/class/thermal").mkdir(parents=True)
    (root / "sys/class/thermal/thermal_zone0").symlink_to(root / zone)
    return replace(found, architecture="aarch64")


def wsl(root: Path) -> Host:
    return host(
        root,
        {
            "proc/version": "Linux version 5.15.167.4-microsoft-standard-WSL2 (root@build) #1 SMP",
            "proc/cpuinfo": f"flags\t\t: {HASWELL}",
            "dev/dxg": "",
        },
    )


def apple(root: Path, quarantined: bool) -> Host:
    def ask(command: Sequence[str]) -> str | None:
        return "0083;66f0;Safari;" if quarantined and command[0] == "xattr" else None

    return Host(root, {}, "darwin", "arm64", frozenset(range(8)), is_bundle=False, ask=ask)
