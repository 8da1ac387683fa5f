"""Models for a screen: judged, got and deleted without holding up whoever asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from edgekv.errors import Unavailable
from edgekv.models.bandwidth import memory_bandwidth
from edgekv.models.keeping import remove
from edgekv.models.shelf import LocalModel
from edgekv.models.transfer import Progress
from edgekv.models.verdicts import Verdict, judge_all, not_judged_yet
from edgekv.service.devices import read_place
from edgekv.service.getting_frames import Came, Got, Refused, Said, read_line
from edgekv.service.own_command import own_command

Hear: TypeAlias = Callable[[Progress | str], None]
"""Hears how far a model is, and sentences for the user."""


class ModelSupply:
    def __init__(self) -> None:
        self.last: tuple[Verdict, ...] = ()
        """What was judged last."""

    async def here(self) -> tuple[Verdict, ...]:
        """The models on this disk at once, before anything is known of them but their size."""
        return await asyncio.to_thread(not_judged_yet)

    async def judged(self) -> tuple[Verdict, ...]:
        """Every model on this disk and in the catalogue, as `verdicts.judge_all` orders them.

        The first time it measures the memory's speed, which takes half a second.
        """
        place = await read_place()

        def judge() -> tuple[Verdict, ...]:
            bandwidth = memory_bandwidth(place.machine, place.processor)
            return asyncio.run(judge_all(place, bandwidth))

        self.last = await asyncio.to_thread(judge)
        return self.last

    async def get(self, name: str, hear: Hear) -> None:
        """Pull what `name` means, if it fits this machine. Raises `EdgeKVError`.

        If it is cancelled the pull ends at once, whatever it waits for, and a later one goes on
        from there.
        """
        process = await asyncio.create_subprocess_exec(
            *own_command("fetch"),
            name,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert process.stdout is not None
        try:
            async for line in process.stdout:
                match read_line(line):
                    case Came(progress):
                        hear(progress)
                    case Said(sentence):
                        hear(sentence)
                    case Refused(sentence):
                        raise Unavailable(sentence)
                    case Got():
                        return
            raise Unavailable(f"The process that got {name} was ended; get it again to go on.")
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            # Also reads what is left in the pipe, without which the process is never done.
            await process.communicate()

    async def remove(self, model: LocalModel) -> None:
        """Delete a model of ours from the disk. Raises as `keeping.remove`."""
        await asyncio.to_thread(remove, model)
