"""Plans that are tried out while a model answers.

A dry run takes an engine about as long as a step, so it is not the engine that answers which is
asked: another process does it, which loads no weights and lives as long as somebody tries. Where
workers hold layers the one that answers has to be, for they serve one process at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from edgekv.budget.wish import Wish
from edgekv.core.plan import MemoryPlan
from edgekv.service.engine_client import EngineClient
from edgekv.service.ground import Ground
from edgekv.service.planning import plan_on


@dataclass(frozen=True, slots=True)
class Draft:
    wish: Wish
    plan: MemoryPlan


class Desk:
    """Where plans for an open model are tried, and one of them is taken.

    They stand on the ground of the first: what the open model holds counts as free.
    """

    def __init__(
        self,
        ground: Ground,
        wish: Wish,
        take: Callable[[Draft], Awaitable[None]],
        answering: Callable[[], Awaitable[EngineClient]],
    ) -> None:
        """`wish` is that of the plan in force; `take` opens the model as drafted, and `answering`
        gives the process that has it open.
        """
        self.wish, self.take, self._answering = wish, take, answering
        self._ground = ground
        self._client: EngineClient | None = None
        self._one_at_a_time = asyncio.Lock()

    @property
    def has_gpu(self) -> bool:
        return any(device.kind != "cpu" for device in self._ground.described.devices)

    @property
    def num_layers(self) -> int:
        return self._ground.described.facts.num_layers

    async def draft(self, wish: Wish) -> Draft:
        """Raises `DoesNotFit` or `InvalidValue` with the sentence that helps."""
        async with self._one_at_a_time:
            client = await (self._answering() if self._ground.workers.present else self._own())
            return Draft(wish, await plan_on(client, self._ground, wish))

    async def _own(self) -> EngineClient:
        if self._client is None or self._client.death is not None:
            self._client = await EngineClient.start()
        return self._client

    async def close(self) -> None:
        """End the process of its own. Safe to call twice."""
        async with self._one_at_a_time:
            if self._client is not None:
                await self._client.close()
                self._client = None
