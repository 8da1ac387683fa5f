"""Where a model is between the start of its engine and its end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    STARTING = "starting"
    PLANNING = "planning"
    LOADING = "loading"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class LoadStep:
    """Where a start is: `fraction` of the weights is loaded while `state` is LOADING."""

    state: State
    fraction: float = 0.0
