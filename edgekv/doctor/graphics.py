"""Graphics devices that are in the machine, whether llama.cpp can use them or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgekv.core.nvidia import NvidiaDevice
from edgekv.doctor.host import Host

BUILD = "make CMAKE_ARGS={} chat (in a clone of EdgeKV)"
CUDA, VULKAN, METAL = "-DGGML_CUDA=ON", "-DGGML_VULKAN=ON", "-DGGML_METAL=ON"

_VENDORS = {
    "0x10de": ("an NVIDIA graphics card", CUDA),
    "0x1002": ("an AMD graphics card", VULKAN),
    "0x8086": ("Intel graphics", VULKAN),
}


@dataclass(frozen=True, slots=True)
class Graphics:
    name: str
    option: str
    """What CMake is told to build llama.cpp for it."""

    @property
    def remedy(self) -> str:
        return BUILD.format(self.option)


def graphics_in(host: Host, nvidia: Sequence[NvidiaDevice] = ()) -> Iterator[Graphics]:
    """The devices that the system knows of, each kind once. `nvidia` is what that driver lists."""
    if host.system == "darwin":
        if host.architecture == "arm64":
            yield Graphics("Apple graphics", METAL)
        return
    if host.is_jetson:
        yield Graphics("a Jetson's graphics", CUDA)
    elif nvidia:
        yield Graphics(" and ".join(sorted({device.name for device in nvidia})), CUDA)
    elif host.text("proc/driver/nvidia/version"):
        yield Graphics("an NVIDIA graphics card with its driver", CUDA)
    elif host.is_wsl:
        if host.paths("dev/dxg"):
            yield Graphics("graphics shared by Windows", CUDA)
    else:
        vendors = {host.text(path) for path in host.paths("sys/class/drm/card*/device/vendor")}
        yield from (Graphics(*_VENDORS[vendor]) for vendor in sorted(vendors & set(_VENDORS)))
