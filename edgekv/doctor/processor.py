"""How many threads compute, and what slows them down: other programs, power modes, heat."""

from __future__ import annotations

import re
from collections.abc import Iterator

from edgekv.budget.machine import Machine
from edgekv.budget.sizes import counted
from edgekv.doctor.finding import Finding, fine, warning
from edgekv.doctor.host import Host

_SCALES_BY_ITSELF = {"intel_pstate", "amd-pstate-epp"}
"""Drivers whose `powersave` still goes up to full speed."""


def examine_processor(host: Host) -> Iterator[Finding]:
    yield fine("threads", threads_words(host.machine()))
    yield from _others(host)
    yield from _governor(host)
    if host.is_jetson:
        yield _power_mode(host)
    yield from _heat(host)


def threads_words(machine: Machine) -> str:
    cores, usable = machine.cores, machine.usable_cpus
    why = cores.source
    if cores.value == usable.value:
        why = usable.source
    return f"{counted(cores.value, 'thread')} for computing, by {why}"


def _others(host: Host) -> Iterator[Finding]:
    # Both are the whole machine's, also in a container that may use a part of it.
    num_wanting = float(host.text("proc/loadavg").partition(" ")[0] or 0)
    num_processors = len(re.findall(r"^processor\b", host.text("proc/cpuinfo"), re.MULTILINE))
    if 0 < num_processors < num_wanting:
        yield warning(
            "busy",
            f"over the last minute {num_wanting:.1f} programs wanted to compute at once on "
            f"{counted(num_processors, 'processor')}, so every speed measured now is too low",
            "end what computes; 'ps aux --sort=-pcpu | head' shows it",
        )


def _governor(host: Host) -> Iterator[Finding]:
    folder = "sys/devices/system/cpu/cpu0/cpufreq"
    governor, driver = (
        host.text(f"{folder}/scaling_governor"),
        host.text(f"{folder}/scaling_driver"),
    )
    if governor == "powersave" and driver not in _SCALES_BY_ITSELF:
        yield warning(
            "power",
            "the processor is kept at its lowest speed (governor powersave)",
            "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        )


def _power_mode(host: Host) -> Finding:
    said = host.ask(("nvpmodel", "-q")) or ""
    mode = re.search(r"NV Power Mode: *(\S+)", said)
    if mode is None:
        return warning(
            "power",
            "this is a Jetson, and its power mode cannot be read",
            "look at it with 'sudo nvpmodel -q'",
        )
    if mode[1].startswith("MAXN"):
        return fine("power", f"Jetson power mode {mode[1]}, the fastest")
    # Boards number their modes differently; the file says which is the one without limits.
    fastest = re.search(r"POWER_MODEL +ID=(\d+) +NAME=MAXN", host.text("etc/nvpmodel.conf"))
    number = fastest[1] if fastest else "0"
    return warning(
        "power",
        f"Jetson power mode {mode[1]} keeps processors and memory below their speed",
        f"sudo nvpmodel -m {number} && sudo jetson_clocks",
    )


def _heat(host: Host) -> Iterator[Finding]:
    for zone in (path.rpartition("/")[0] for path in host.paths("sys/class/thermal/*/temp")):
        heat = host.text(f"{zone}/temp")
        limits = [
            int(host.text(path.replace("_type", "_temp")) or 0)
            for path in host.paths(f"{zone}/trip_point_*_type")
            if host.text(path) == "passive"
        ]
        slows_at = min((limit for limit in limits if limit > 0), default=None)
        if slows_at is not None and heat.isdigit() and int(heat) >= slows_at:
            yield warning(
                "heat",
                f"{host.text(f'{zone}/type')} has {int(heat) // 1000} °C and slows down from "
                f"{slows_at // 1000} °C on",
                "give it air, and clean or fasten its fan",
            )
