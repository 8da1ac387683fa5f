"""NVIDIA's library as it answered on machines that are not here."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any


class NotSupported(Exception):
    """What the binding raises where `nvidia-smi` prints N/A."""


@dataclass(frozen=True)
class Card:
    """One device, or a slice of one. No `total` is N/A."""

    total: int | None
    free: int | None
    bus_id: str = "00000000:01:00.0"
    uuid: str = "GPU-1"
    name: str = "NVIDIA Card"
    held: tuple[int | None, ...] = ()
    """By processes that are not this one."""
    slices: tuple[Card, ...] = ()


@dataclass
class RecordedNvml:
    cards: Sequence[Card]
    NVMLError: type[Exception] = field(default=NotSupported)

    def nvmlInit(self) -> None: ...

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:
        return self.cards[index]

    def nvmlDeviceGetName(self, handle: Card) -> str:
        return handle.name

    def nvmlDeviceGetUUID(self, handle: Card) -> str:
        return handle.uuid

    def nvmlDeviceGetPciInfo(self, handle: Card) -> Any:
        return SimpleNamespace(busId=handle.bus_id)

    def nvmlDeviceGetMemoryInfo(self, handle: Card) -> Any:
        if handle.total is None:
            raise NotSupported
        return SimpleNamespace(total=handle.total, free=handle.free)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Card) -> Sequence[Any]:
        own = SimpleNamespace(pid=os.getpid(), usedGpuMemory=2**30)
        return [own, *(SimpleNamespace(pid=-1, usedGpuMemory=held) for held in handle.held)]

    def nvmlDeviceGetMigMode(self, device: Card) -> Sequence[int]:
        if not device.slices:
            raise NotSupported
        return [1, 1]

    def nvmlDeviceGetMaxMigDeviceCount(self, device: Card) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: Card, index: int) -> Card:
        if index >= len(device.slices):
            raise NotSupported
        return device.slices[index]


def lost(nvml: RecordedNvml, question: str) -> RecordedNvml:
    """The same where the driver fails at one question: a device that fell off the bus."""

    def fail(*_: Any) -> Any:
        raise NotSupported

    failing = replace(nvml)
    failing_ask: Callable[..., Any] = fail
    setattr(failing, question, failing_ask)
    return failing
