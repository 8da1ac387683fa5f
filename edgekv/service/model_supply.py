"""Models for a screen: judged, got and deleted without holding up whoever asks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

from edgekv.models.bandwidth import memory_bandwidth
from edgekv.models.folders import pull_folder
from edgekv.models.hub import Hub, connect
from edgekv.models.keeping import remove
from edgekv.models.pull import Wanted, pull
from edgekv.models.quantisations import choose
from edgekv.models.shelf import LocalModel
from edgekv.models.transfer import Progress
from edgekv.models.verdicts import Verdict, judge_all
from edgekv.models.wanted import read_wanted
from edgekv.service.devices import read_place


class _Stopped(Exception):
    """Nobody wants the pull any more."""


class ModelSupply:
    def __init__(self, connect_hub: Callable[[], Hub] = connect) -> None:
        self._connect = connect_hub
        self.last: tuple[Verdict, ...] = ()
        """What was judged last."""

    async def judged(self) -> tuple[Verdict, ...]:
        """Every model on this disk and in the catalogue, as `verdicts.judge_all` orders them.

        The first time it measures the memory's speed, which takes half a second.
        """
        place = await read_place()
        processor = next((one.name for one in place.devices if one.kind == "cpu"), "processor")

        def judge() -> tuple[Verdict, ...]:
            bandwidth = memory_bandwidth(place.machine, processor)
            return asyncio.run(judge_all(place, bandwidth))

        self.last = await asyncio.to_thread(judge)
        return self.last

    async def get(self, name: str, hear: Callable[[Progress], None]) -> Path:
        """Pull what `name` means; returns the file to open. `hear` is called on the loop.

        Raises `EdgeKVError`. If it is cancelled the pull stops at its next block, and a later one
        goes on from there.
        """
        loop, is_stopped = asyncio.get_running_loop(), threading.Event()

        def tell(progress: Progress) -> None:
            if is_stopped.is_set():
                raise _Stopped
            loop.call_soon_threadsafe(hear, progress)

        pulling = asyncio.create_task(asyncio.to_thread(self._pull, name, tell))
        try:
            return await asyncio.shield(pulling)
        except asyncio.CancelledError:
            is_stopped.set()
            await asyncio.gather(pulling, return_exceptions=True)
            raise

    async def remove(self, model: LocalModel) -> None:
        """Delete a model of ours from the disk. Raises as `keeping.remove`."""
        await asyncio.to_thread(remove, model)

    def _pull(self, name: str, hear: Callable[[Progress], None]) -> Path:
        reference = read_wanted(name)
        hub = self._connect()
        listing = hub.list_files(reference.repository)
        return pull(hub, Wanted(listing, choose(listing, reference.wanted), pull_folder()), hear)
