"""The devices of this machine, asked of a child process that loads llama.cpp."""

from __future__ import annotations

import asyncio

import msgspec

from edgekv.budget.machine import read_machine
from edgekv.core.library import RPC, WITHOUT_RPC
from edgekv.core.plan import DeviceInfo
from edgekv.errors import Unavailable
from edgekv.models.forecast import Place
from edgekv.models.repacked import usual_features
from edgekv.service.own_command import own_command

_SECONDS = 20.0
"""A graphics driver that wakes up takes some of them."""


class _Told(msgspec.Struct, frozen=True):
    """The part of `core.library.LibraryFacts` that matters here."""

    devices: tuple[DeviceInfo, ...] = ()
    backends: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()


async def read_place() -> Place:
    """This machine, for forecasts."""
    told = await _ask_library()
    return Place(read_machine(), told.devices, told.features or usual_features())


async def read_lendable() -> tuple[DeviceInfo, ...]:
    """As ggml tells them, for who lends them to others. Raises `Unavailable` where nothing can."""
    told = await _ask_library()
    if RPC not in told.backends:
        raise Unavailable(WITHOUT_RPC)
    return told.devices


async def _ask_library() -> _Told:
    process = await asyncio.create_subprocess_exec(
        *own_command("library"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        told, _ = await asyncio.wait_for(process.communicate(), _SECONDS)
        return msgspec.json.decode(told, type=_Told)
    except (TimeoutError, msgspec.DecodeError):
        return _Told()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
