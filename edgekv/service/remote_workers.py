"""Which workers on other machines are there, asked before the engine needs them.

llama.cpp ends its process where one is away, and waits for ever where one serves somebody else.
What is spoken is the beginning of llama.cpp's RPC protocol. A message is its kind in one byte,
its length in eight, and its body; the answer is a length and a body, little end first.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import structs

from edgekv.core.plan import DeviceInfo

MAJOR, MINOR = 7, 0
"""The version of the protocol that the tested llama.cpp speaks."""
SECONDS_TO_CONNECT = 3.0
SECONDS_TO_ANSWER = 10.0
"""A worker that just lost its client may still compute for it."""
SECONDS_TO_COME_BACK = 5.0
"""For a worker that an engine has just lost: where only its process broke, another one starts."""
SECONDS_BETWEEN_TRIES = 0.25
NUM_ROUND_TRIPS = 5

_HELLO, _DEVICE_COUNT = 14, 15
_CAPABILITIES = bytes(24)
"""None but TCP."""


@dataclass(frozen=True, slots=True)
class Present:
    """A worker that answered and serves nobody else."""

    address: str
    latency_ms: float
    """The shortest of a few round trips: what each step waits for at the least."""


@dataclass(frozen=True, slots=True)
class Workers:
    present: tuple[Present, ...] = ()
    left_out: tuple[str, ...] = ()
    """One sentence for each worker that was named and cannot be used."""

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(worker.address for worker in self.present)

    def timed(self, devices: Iterable[DeviceInfo]) -> tuple[DeviceInfo, ...]:
        """The same devices; those of workers with how far away they are."""
        latencies = {worker.address: worker.latency_ms for worker in self.present}
        return tuple(
            structs.replace(device, latency_ms=latencies.get(device.name))
            if device.kind == "rpc"
            else device
            for device in devices
        )


NO_WORKERS = Workers()


class _Away(Exception):
    """Why a worker cannot be used, and what would help."""


async def find_workers(addresses: Sequence[str], seconds_to_wait: float = 0.0) -> Workers:
    """Ask all of them at once, and those that are away again for a while. Each is HOST:PORT."""
    found = await asyncio.gather(*(_ask(address, seconds_to_wait) for address in addresses))
    return Workers(
        tuple(one for one in found if isinstance(one, Present)),
        tuple(one for one in found if isinstance(one, str)),
    )


async def answers(address: str) -> bool:
    """Whether a worker is there that serves nobody else."""
    return isinstance(await _ask(address, 0.0), Present)


async def _ask(address: str, seconds_to_wait: float) -> Present | str:
    until = time.monotonic() + seconds_to_wait
    while True:
        try:
            return Present(address, await latency_of(address))
        except _Away as reason:
            if time.monotonic() >= until:
                return f"The worker {address} is left out: {reason}."
        await asyncio.sleep(SECONDS_BETWEEN_TRIES)


async def latency_of(address: str) -> float:
    """Milliseconds there and back. Raises `_Away`."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(SECONDS_TO_CONNECT):
            reader, writer = await asyncio.open_connection(host, int(port), family=socket.AF_INET)
    except TimeoutError:
        raise _Away("that machine does not answer; switch it on, or check the network") from None
    except OSError as error:
        raise _Away(_reason(error)) from None
    try:
        async with asyncio.timeout(SECONDS_TO_ANSWER):
            await _greet(reader, writer)
            return min([await _round_trip(reader, writer) for _ in range(NUM_ROUND_TRIPS)])
    except TimeoutError:
        raise _Away("it serves somebody else, and a worker serves one at a time") from None
    except (OSError, asyncio.IncompleteReadError):
        raise _Away("what answers there is no worker; check the port") from None
    finally:
        writer.close()


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Raises `_Away` for a worker that speaks another version."""
    major, minor = (await _say(reader, writer, _HELLO, _CAPABILITIES, answer_bytes=28))[:2]
    if major != MAJOR or minor > MINOR:
        raise _Away(
            f"it speaks version {major}.{minor} of llama.cpp's protocol and this is {MAJOR}.{MINOR}"
            "; install the same EdgeKV on both"
        )


async def _round_trip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> float:
    started = time.perf_counter()
    await _say(reader, writer, _DEVICE_COUNT, b"", answer_bytes=4)
    return (time.perf_counter() - started) * 1000


async def _say(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    kind: int,
    body: bytes,
    *,
    answer_bytes: int,
) -> bytes:
    """Raises `_Away` for an answer of another length."""
    writer.write(struct.pack("<BQ", kind, len(body)) + body)
    await writer.drain()
    (length,) = struct.unpack("<Q", await reader.readexactly(8))
    if length != answer_bytes:
        raise _Away("what answers there is no worker; check the port")
    return await reader.readexactly(length)


def _reason(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there; start 'edgekv worker' on that machine"
    if isinstance(error, socket.gaierror):
        return "nobody knows that name; check it, or write the IPv4 address"
    return f"{(error.strerror or str(error)).lower()}; check the network"
