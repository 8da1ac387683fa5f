"""The messages by which a front end makes an engine get by with less memory, and with more again.

Part of `core/frames.py`, which says how messages travel.
"""

from __future__ import annotations

import msgspec

from edgekv.core.plan import Allocation, Choice, DeviceInfo
from edgekv.core.restraint import Restraint


class Survey(msgspec.Struct, frozen=True, tag=True):
    """Ask what the drivers of all devices report now."""

    call: int


class Surveyed(msgspec.Struct, frozen=True, tag=True):
    call: int
    devices: tuple[DeviceInfo, ...]


class Restrain(msgspec.Struct, frozen=True, tag=True):
    """Let the open model do without what memory is too short for, until told otherwise."""

    call: int
    restraint: Restraint


class Restrained(msgspec.Struct, frozen=True, tag=True):
    """Cells that were kept in the pool, and bytes of copies in host memory, that are gone."""

    call: int
    num_cells: int
    num_bytes: int


class Resize(msgspec.Struct, frozen=True, tag=True):
    """Give the open model a pool of another size. Requests under way are suspended and go on in
    it; the pool gets no smaller, and its context no shorter, than what they were promised.

    `choice` differs from the one that is open only in what decides how much is allocated.
    """

    call: int
    choice: Choice


class Resized(msgspec.Struct, frozen=True, tag=True):
    call: int
    choice: Choice
    """What is open now."""
    allocation: Allocation | None
    """None if that was open already."""
    num_carried: int
    """Requests that had begun and go on in the new pool."""
