"""An open model at one moment, for people who watch it: requests, and who holds which cells.

It is small whatever runs: a few numbers for each sequence id, and no tokens.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from edgekv.core.inspection import HeldRun
from edgekv.core.request import Priority, RequestId, SeqId

MOST_WAITING = 16
"""So many waiting requests are told one by one."""

WaitsFor: TypeAlias = Literal["slot", "room", "prefix"]
"""A slot; cells; or another request that is about to compute the same beginning."""


class RunningRequest(msgspec.Struct, frozen=True):
    request_id: RequestId
    seq_id: SeqId
    priority: Priority
    num_prompt: int
    num_computed: int
    """Tokens that have cells: below `num_prompt` the prompt is still being read."""
    num_generated: int
    max_tokens: int


class WaitingRequest(msgspec.Struct, frozen=True):
    request_id: RequestId
    priority: Priority
    num_tokens: int
    """Of its prompt, and of its answer if it was suspended."""
    is_suspended: bool
    waits_for: WaitsFor


class EngineLook(msgspec.Struct, frozen=True):
    running: tuple[RunningRequest, ...] = ()
    """In the order of their starts."""
    waiting: tuple[WaitingRequest, ...] = ()
    """The next to start first, `MOST_WAITING` at most."""
    runs: tuple[HeldRun, ...] = ()
