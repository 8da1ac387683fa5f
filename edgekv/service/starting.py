"""Starts engine processes, with the devices of those workers that are there."""

from __future__ import annotations

import logging

from edgekv.budget.wish import Wish
from edgekv.service.engine_client import EngineClient
from edgekv.service.remote_workers import SECONDS_TO_COME_BACK, find_workers

_log = logging.getLogger(__name__)


async def start_engine(wish: Wish, seconds_to_wait: float = 0.0) -> EngineClient:
    """A process that has the devices of those workers that are there, now or after a while."""
    workers = await find_workers(wish.workers, seconds_to_wait)
    for sentence in workers.left_out:
        _log.warning("%s", sentence)
    return await EngineClient.start(workers=workers)


async def start_again(wish: Wish, ended: EngineClient) -> EngineClient:
    """Another process for one that ended. The log says how it ended."""
    how, _, _ = str(ended.death).partition(";")
    _log.warning("%s, so it is started again; answers under way go on.", how)
    return await start_engine(wish, SECONDS_TO_COME_BACK)
