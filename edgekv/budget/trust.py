"""What an engine that ran out of memory is trusted with, and when it is trusted with more again.

Pure: it is told what happened and when.

    a shortage: 4/5 of what the plan took ─▶ quiet: 5/4 of that ─▶ … ─▶ all of the first plan

The quiet doubles whenever a plan that was trusted with more ran out of memory again, so an engine
that cannot have its first plan is ended by it ever more seldom.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

SHARE_AFTER_SHORTAGE = 0.8
"""What an engine that ran out of memory gets of its plan the next time."""
SECONDS_OF_QUIET = 600.0
"""Without shortage or pressure, before it gets a step more for the first time."""
NEARLY_ALL = 0.95
"""Of the first plan, as good as all: plans end a little below what they may take."""


@dataclass(frozen=True, slots=True)
class Trust:
    most_bytes: int | None = None
    """What a plan may take in all; None: as much as the first one."""
    since_seconds: float = 0.0
    """When it was last changed, or memory last short."""
    quiet_seconds: float = SECONDS_OF_QUIET
    has_grown: bool = False
    """More than after the last shortage."""

    def after_shortage(self, total_bytes: int, now_seconds: float) -> Trust:
        """`total_bytes` is what the plan took that ran out."""
        quiet = self.quiet_seconds * 2 if self.has_grown else self.quiet_seconds
        return Trust(int(total_bytes * SHARE_AFTER_SHORTAGE), now_seconds, quiet)

    def under_pressure(self, now_seconds: float) -> Trust:
        return replace(self, since_seconds=now_seconds)

    def after_quiet(self, whole_bytes: int, now_seconds: float) -> Trust:
        """A step more if the quiet was long enough. `whole_bytes` is what the first plan takes."""
        if self.most_bytes is None or now_seconds - self.since_seconds < self.quiet_seconds:
            return self
        more = int(self.most_bytes / SHARE_AFTER_SHORTAGE) + 1
        most = None if more >= whole_bytes * NEARLY_ALL else more
        return Trust(most, now_seconds, self.quiet_seconds, has_grown=True)
