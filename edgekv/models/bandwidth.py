"""How fast this machine reads its memory, measured: what the speed of answers hangs on.

Every token of an answer needs all active weights once, so tokens a second are at most bytes a
second over bytes a token. Reading takes half a second and is remembered, because it says nothing
new the next time on the same processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from edgekv.budget.machine import MIB, Machine
from edgekv.config.places import cache_folder

READ_BYTES = 512 * MIB
"""More than any processor's caches hold; less where memory is short."""
_PASSES = 3
_FILE = "bandwidth.json"


class Bandwidth(msgspec.Struct, frozen=True):
    bytes_per_second: float
    threads: int
    processor: str
    how: str
    """One sentence for people."""


def memory_bandwidth(machine: Machine, processor: str, *, anew: bool = False) -> Bandwidth:
    """What was measured here before, or a new measurement. It is kept if it can be."""
    folder = cache_folder()
    known = None if anew or folder is None else _known(folder / _FILE)
    if known is not None and (known.processor, known.threads) == (processor, machine.cores.value):
        return known
    measured = measure(machine, processor)
    if folder is not None:
        _keep(folder, measured)
    return measured


def measure(
    machine: Machine, processor: str, clock: Callable[[], float] = time.perf_counter
) -> Bandwidth:
    """Read a large array with as many threads as compute, some times; the best counts."""
    import numpy as np

    threads = machine.cores.value
    length = max(MIB, min(READ_BYTES, machine.available.value // 8))
    pieces = np.array_split(np.ones(length // 8, dtype=np.float64), threads)
    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(_PASSES):
            start = clock()
            list(pool.map(np.sum, pieces))
            best = min(best, clock() - start)
    return Bandwidth(
        bytes_per_second=length / best,
        threads=threads,
        processor=processor,
        how=f"{length // MIB} MiB of memory read by {threads} threads, the best of {_PASSES} times",
    )


def tokens_per_second(bandwidth: Bandwidth, active_bytes: int) -> float:
    """The most tokens a second that one answer can have, whatever computes it."""
    return bandwidth.bytes_per_second / active_bytes


def _known(file: Path) -> Bandwidth | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Bandwidth)
    except (OSError, msgspec.DecodeError):
        return None


def _keep(folder: Path, measured: Bandwidth) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / _FILE).write_bytes(msgspec.json.encode(measured))
    except OSError:
        return  # a read-only cache: it is measured again the next time
