"""One thing that was looked at, how it is, and what mends it."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    FINE = "fine"
    WARNING = "warning"
    """It works, but slower or less than it could."""
    FAULT = "fault"
    """Something does not work."""


class Finding(msgspec.Struct, frozen=True):
    topic: str
    verdict: Verdict
    text: str
    remedy: str | None = None
    """What to do, with the command to type. There is one unless all is fine."""

    def __post_init__(self) -> None:
        assert (self.remedy is None) is (self.verdict is Verdict.FINE), self


def fine(topic: str, text: str) -> Finding:
    return Finding(topic, Verdict.FINE, text)


def warning(topic: str, text: str, remedy: str) -> Finding:
    return Finding(topic, Verdict.WARNING, text, remedy)


def fault(topic: str, text: str, remedy: str) -> Finding:
    return Finding(topic, Verdict.FAULT, text, remedy)
