"""NVIDIA's devices as their driver tells of them, and whether llama.cpp uses them."""

from __future__ import annotations

from collections.abc import Iterator

from edgekv.budget.sizes import format_size
from edgekv.core.library import LibraryFacts
from edgekv.core.nvidia import VISIBLE, NvidiaDevice
from edgekv.doctor.finding import Finding, fine, warning
from edgekv.doctor.host import Host


def examine_nvidia(host: Host, facts: LibraryFacts) -> Iterator[Finding]:
    used = {device.address for device in facts.devices}
    hidden = host.environment.get(VISIBLE)
    for device in facts.nvidia:
        yield fine("driver", f"{device.name} ({device.address}): {_memory(device)}")
        if hides_devices(host, facts) and device.address not in used:
            yield warning(
                "driver",
                f"{device.name} ({device.address}) is hidden by {VISIBLE}='{hidden}'",
                f"unset {VISIBLE}",
            )


def hides_devices(host: Host, facts: LibraryFacts) -> bool:
    """Whether the environment, not the library, is why devices of NVIDIA's are not used."""
    return "CUDA" in facts.backends and VISIBLE in host.environment and bool(facts.nvidia)


def _memory(device: NvidiaDevice) -> str:
    if device.slices:
        slices = "; ".join(f"{one.name}: {_memory(one)}" for one in device.slices)
        return f"divided into {len(device.slices)}, of which a process may use one ({slices})"
    if device.total_bytes is None or device.free_bytes is None:
        return "its driver gives no figures of memory (N/A), as where it is the host's"
    words = f"{format_size(device.free_bytes)} of {format_size(device.total_bytes)} free"
    if device.others_bytes:
        words += f", other processes hold {format_size(device.others_bytes)}"
    return words
