"""Prompts that are kept for whoever begins with them: computed for their cells alone."""

from __future__ import annotations

import logging
from collections import deque
from contextlib import suppress

from edgekv.core.events import EngineEvent, Failed, Sampled
from edgekv.core.request import Priority, Request, RequestId, SamplingParams, Token
from edgekv.engine.engine import Engine
from edgekv.errors import InvalidValue, Overloaded

logger = logging.getLogger(__name__)

ENOUGH_TOKENS = 2
"""It is ended at the first, so its length teaches nobody what answers are like."""


class Pinning:
    """Computes one prompt after the other, so that it takes one slot at most."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._to_compute: deque[Request] = deque()
        self._under_way: RequestId | None = None

    def pin(self, name: str, tokens: tuple[Token, ...], *, compute: bool) -> None:
        """Keep a prompt from now on; unless `compute` is set, once somebody has computed it.

        Raises `InvalidValue` for one that is empty or too long, and `Unavailable` where nothing
        can be pinned.
        """
        limit = self._engine.context_length - ENOUGH_TOKENS
        if not 0 < len(tokens) <= limit:
            raise InvalidValue(
                "warm",
                f"The prompt '{name}' has {len(tokens)} tokens, but to be pinned it may have 1 to "
                f"{limit}; change it or start with a larger --ctx.",
            )
        self._engine.pin(name, tokens)
        if compute:
            self._to_compute.append(_request(name, tokens))
            self._go_on()

    def hear(self, event: EngineEvent) -> None:
        """An event of a request that no caller has made."""
        if event.request_id != self._under_way:
            return
        if isinstance(event, Failed):
            logger.warning("%s was not computed: %s", event.request_id, event.error.message)
        if isinstance(event, Sampled | Failed):
            self._engine.cancel(event.request_id)
            self._under_way = None
            self._go_on()

    def _go_on(self) -> None:
        if self._under_way is None and self._to_compute:
            request = self._to_compute.popleft()
            # In a queue that is full there is somebody to compute it soon enough.
            with suppress(Overloaded):
                self._engine.submit(request)
                self._under_way = request.id


def _request(name: str, tokens: tuple[Token, ...]) -> Request:
    return Request(
        RequestId(f"warm {name}"),
        tokens,
        ENOUGH_TOKENS,
        SamplingParams(temperature=0),
        ignore_end=True,
        priority=Priority.BATCH,
    )
