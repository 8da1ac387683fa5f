"""What NVIDIA's driver says of one of its devices."""

from __future__ import annotations

import msgspec

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""The environment variable that hides devices from CUDA."""


class NvidiaDevice(msgspec.Struct, frozen=True):
    """A device, or a slice of one (MIG). Sizes are bytes; None is what the driver calls N/A."""

    name: str
    address: str
    """On the PCI bus, as ggml writes it: "0000:01:00.0". A slice has that of its device."""
    uuid: str
    """As CUDA_VISIBLE_DEVICES may name it: "GPU-…", "MIG-…"."""
    total_bytes: int | None = None
    free_bytes: int | None = None
    others_bytes: int | None = None
    """What processes hold that are not this one."""
    slices: tuple[NvidiaDevice, ...] = ()
    """Of a device that is divided, the parts. No program may use more than one of them."""
