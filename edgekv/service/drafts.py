"""Plans that are tried out while a model answers.

A dry run takes an engine about as long as a step, so it is not the engine that answers which is
asked: another process does it, which loads no weights and lives as long as somebody tries.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from edgekv.budget.wish import Wish
from edgekv.core.plan import MemoryPlan
from edgekv.service.engine_client import EngineClient
from edgekv.service.planning import Ground, plan_on


@dataclass(frozen=True, slots=True)
class Draft:
    wish: Wish
    plan: MemoryPlan


class Drafts:
    """Plans on the ground of a model that is open: what that holds counts as free."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._client: EngineClient | None = None
        self._one_at_a_time = asyncio.Lock()

    async def draft(self, wish: Wish) -> Draft:
        """Raises `DoesNotFit` or `InvalidValue` with the sentence that helps."""
        async with self._one_at_a_time:
            if self._client is None or self._client.death is not None:
                self._client = await EngineClient.start()
            return Draft(wish, await plan_on(self._client, self._ground, wish))

    async def close(self) -> None:
        """End the process. Safe to call twice."""
        async with self._one_at_a_time:
            if self._client is not None:
                await self._client.close()
                self._client = None
