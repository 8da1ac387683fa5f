"""Memory as a plan sees it, and what of the system's settings takes some of it away."""

from __future__ import annotations

from collections.abc import Iterator

from edgekv.budget.machine import MIB, Machine
from edgekv.budget.sizes import format_size
from edgekv.doctor.finding import Finding, fault, fine, warning
from edgekv.doctor.host import Host

LEAST_BYTES = 512 * MIB
"""Below this hardly any model and its cells fit."""
FEWEST_FILES = 256
"""Open files: one a connection, and some for the engine."""


def examine_memory(host: Host) -> Iterator[Finding]:
    yield _budget(host.machine())
    yield from _swap(host)
    yield from _set_aside(host)
    yield from _overcommit(host)
    yield from _limits(host)


def _budget(machine: Machine) -> Finding:
    spare = max(0, machine.available.value - machine.reserve.value)
    text = (
        f"{format_size(spare)} for a plan: {format_size(machine.available.value)} available of "
        f"{format_size(machine.total.value)} ({machine.available.source}), less "
        f"{format_size(machine.reserve.value)} for the system"
    )
    if spare >= LEAST_BYTES:
        return fine("memory", text)
    if machine.total.value < 2 * LEAST_BYTES:
        remedy = f"allow this process more memory ({machine.total.source})"
    else:
        remedy = "close other programs; 'ps aux --sort=-rss | head' shows the largest"
    return warning("memory", text, remedy)


def _swap(host: Host) -> Iterator[Finding]:
    lines = [line.split() for line in host.text("proc/swaps").splitlines()[1:]]
    if not lines:
        return
    total = format_size(sum(int(line[2]) * 1024 for line in lines))
    kind = "compressed memory (zram)" if all("zram" in line[0] for line in lines) else "swap"
    yield fine("swap", f"{total} of {kind}; no plan counts on it, so that nothing waits for it")


def _set_aside(host: Host) -> Iterator[Finding]:
    sizes = {
        name: int(rest.split()[0])
        for name, _, rest in (
            line.partition(":") for line in host.text("proc/meminfo").splitlines()
        )
        if rest
    }
    num_pages = sizes.get("HugePages_Total", 0)
    taken = num_pages * sizes.get("Hugepagesize", 0) * 1024
    if taken:
        yield warning(
            "huge pages",
            f"{format_size(taken)} are set aside as {num_pages} huge pages, which llama.cpp cannot "
            "use",
            "sudo sysctl vm.nr_hugepages=0",
        )
    if chosen := host.text("sys/kernel/mm/transparent_hugepage/enabled"):
        word = chosen.partition("[")[2].partition("]")[0]
        yield fine("huge pages", f"transparent huge pages: {word}")


def _overcommit(host: Host) -> Iterator[Finding]:
    if host.text("proc/sys/vm/overcommit_memory") == "2":
        yield warning(
            "overcommit",
            "the kernel refuses memory that is promised and not used yet, so a plan that fits may "
            "be refused all the same",
            "sudo sysctl vm.overcommit_memory=0",
        )


def _limits(host: Host) -> Iterator[Finding]:
    limits = {
        line[:26].strip(): line[26:].split() for line in host.text("proc/self/limits").splitlines()
    }
    soft, *_ = limits.get("Max address space", ["unlimited"])
    if soft != "unlimited":
        yield fault(
            "limits",
            f"this process may address {format_size(int(soft))} at most, mapped files included",
            "ulimit -v unlimited",
        )
    soft, *_ = limits.get("Max open files", ["unlimited"])
    if soft != "unlimited" and int(soft) < FEWEST_FILES:
        yield warning(
            "limits", f"only {soft} files may be open, connections included", "ulimit -n 4096"
        )
