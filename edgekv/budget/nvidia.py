"""NVIDIA's driver asked through its own library, NVML: a second opinion beside ggml's figures."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from edgekv.budget.sizes import format_size
from edgekv.core.nvidia import NvidiaDevice
from edgekv.core.plan import DeviceInfo

_MIG_IS_ON = 1  # NVML_DEVICE_MIG_ENABLE
_T = TypeVar("_T")


class Nvml(Protocol):
    """What is asked of NVIDIA's binding `pynvml`, under its own names."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> None: ...
    def nvmlDeviceGetCount(self) -> int: ...
    def nvmlDeviceGetHandleByIndex(self, index: int, /) -> Any: ...
    def nvmlDeviceGetName(self, handle: Any, /) -> str: ...
    def nvmlDeviceGetUUID(self, handle: Any, /) -> str: ...
    def nvmlDeviceGetPciInfo(self, handle: Any, /) -> Any: ...
    def nvmlDeviceGetMemoryInfo(self, handle: Any, /) -> Any: ...
    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any, /) -> Sequence[Any]: ...
    def nvmlDeviceGetMigMode(self, device: Any, /) -> Sequence[int]: ...
    def nvmlDeviceGetMaxMigDeviceCount(self, device: Any, /) -> int: ...
    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: Any, index: int, /) -> Any: ...


@functools.cache
def driver() -> Nvml | None:
    """NVML, ready to be asked; None where no driver of NVIDIA's is installed, or none answers."""
    name = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
    try:
        # The binding is large, so a machine without the driver does not even import it.
        ctypes.CDLL(name)
    except OSError:
        return None
    import pynvml

    nvml: Nvml = pynvml
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    return nvml


def read_nvidia(nvml: Nvml | None) -> tuple[NvidiaDevice, ...]:
    """Every device of the driver's, whatever CUDA_VISIBLE_DEVICES hides."""
    if nvml is None:
        return ()
    numbers = range(_told(nvml, nvml.nvmlDeviceGetCount) or 0)
    found = (_told(nvml, lambda n=number: _device(nvml, n)) for number in numbers)  # type: ignore[misc]
    return tuple(device for device in found if device is not None)


def with_second_opinion(
    info: DeviceInfo, drivers: Iterable[NvidiaDevice], visible: str | None
) -> DeviceInfo:
    """What ggml reports of a device, with the smaller of both figures for its free memory.

    `visible` is CUDA_VISIBLE_DEVICES. A device that shares the host's memory is left as it is:
    what its driver says, if anything, is not about memory of its own.
    """
    device = next((one for one in drivers if one.address == info.address), None)
    if device is None or info.unified:
        return info
    told = _slice_in_use(device, visible)
    if told.total_bytes is None or told.free_bytes is None:
        return info
    if info.free_bytes is not None and info.free_bytes <= told.free_bytes:
        return info
    total = min(info.total_bytes or told.total_bytes, told.total_bytes)
    return replace(
        info, total_bytes=total, free_bytes=told.free_bytes, source=_words(told, info.free_bytes)
    )


def _words(told: NvidiaDevice, reported: int | None) -> str:
    ours = "nothing" if reported is None else format_size(reported)
    words = f"free memory as NVML reports it, where llama.cpp reports {ours}"
    if told.others_bytes:
        words += f"; other processes hold {format_size(told.others_bytes)}"
    return words


def _slice_in_use(device: NvidiaDevice, visible: str | None) -> NvidiaDevice:
    """CUDA shows a process one slice of a divided device: the one that is named, else any."""
    if not device.slices:
        return device
    named = [one for one in device.slices if one.uuid in (visible or "")]
    return min(named or device.slices, key=lambda one: one.free_bytes or 0)


def _device(nvml: Nvml, number: int) -> NvidiaDevice:
    handle = nvml.nvmlDeviceGetHandleByIndex(number)
    address = _address(nvml.nvmlDeviceGetPciInfo(handle).busId)
    return replace(_read(nvml, handle, address), slices=tuple(_slices(nvml, handle, address)))


def _slices(nvml: Nvml, handle: Any, address: str) -> Iterator[NvidiaDevice]:
    mode = _told(nvml, lambda: nvml.nvmlDeviceGetMigMode(handle))
    if mode is None or mode[0] != _MIG_IS_ON:
        return
    for number in range(_told(nvml, lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(handle)) or 0):
        get = functools.partial(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
        part = _told(nvml, get)
        if part is not None:  # so many slices there may be; fewer are
            yield _read(nvml, part, address)


def _read(nvml: Nvml, handle: Any, address: str) -> NvidiaDevice:
    memory = _told(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    return NvidiaDevice(
        name=nvml.nvmlDeviceGetName(handle),
        address=address,
        uuid=nvml.nvmlDeviceGetUUID(handle),
        total_bytes=None if memory is None else int(memory.total),
        free_bytes=None if memory is None else int(memory.free),
        others_bytes=_held_by_others(nvml, handle),
    )


def _held_by_others(nvml: Nvml, handle: Any) -> int | None:
    processes = _told(nvml, lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle))
    sizes = [p.usedGpuMemory for p in processes or () if p.pid != os.getpid()]
    # Windows keeps these figures to itself.
    return None if processes is None or None in sizes else sum(sizes)


def _address(bus_id: str) -> str:
    """NVML's "00000000:C1:00.0" as ggml writes it: the domain has four digits there."""
    domain, _, rest = bus_id.partition(":")
    return f"{int(domain, 16):04x}:{rest.lower()}"


def _told(nvml: Nvml, ask: Callable[[], _T]) -> _T | None:
    """What the driver answers; None where it calls that N/A, forbids it or lost the device."""
    try:
        return ask()
    except nvml.NVMLError:
        return None
