"""Progress on one line of a terminal, and silence everywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType

import click

from edgekv.budget.sizes import format_size
from edgekv.models.transfer import Progress
from edgekv.service.stages import Stage

BAR_LENGTH = 24
SECONDS_BETWEEN = 0.1
"""Often enough to be seen moving, seldom enough for a slow terminal."""


def progress_line(progress: Progress, arrived_bytes: int, seconds: float) -> str:
    """What is done, how fast, and how long the rest takes at that speed.

    `arrived_bytes` have come within `seconds`; what was on disk before is not among them.
    """
    share = progress.done_bytes / progress.total_bytes if progress.total_bytes else 1.0
    filled = "#" * int(share * BAR_LENGTH)
    done, total = format_size(progress.done_bytes), format_size(progress.total_bytes)
    line = f"[{filled:.<{BAR_LENGTH}}] {share:4.0%}  {done} of {total}"
    if progress.is_checking:
        return f"{line}, checking what is here"
    if not arrived_bytes or not seconds:
        return line
    speed = arrived_bytes / seconds
    left = (progress.total_bytes - progress.done_bytes) / speed
    return f"{line}, {format_size(int(speed))}/s, {duration(left)} left"


def duration(seconds: float) -> str:
    """ "42 s", "3 min 5 s", "2 h 10 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def stage_line() -> Callable[[Stage], None]:
    """Draws a mark for every stage, and cleans up behind the last."""
    if sys.stderr is None or not sys.stderr.isatty():
        return lambda _: None

    def show(stage: Stage) -> None:
        done, left = "#" * stage.num_done, "." * (stage.num_stages - stage.num_done)
        line = f"[{done}{left}] {stage.words}" if stage.words else ""
        click.echo(f"\r\033[K{line}", err=True, nl=False)

    return show


class ProgressLine:
    """`with ProgressLine() as hear:` — draws where stderr is a terminal, and cleans up behind."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._is_shown = sys.stderr is not None and sys.stderr.isatty()
        self._begun: tuple[float, int] | None = None
        self._drawn_at = float("-inf")
        self._drawn = ""

    def __enter__(self) -> Callable[[Progress], None]:
        return self._hear

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._draw("")

    def _hear(self, progress: Progress) -> None:
        now = self._clock()
        if progress.is_checking:
            self._begun = None
        elif self._begun is None:
            self._begun = now, progress.done_bytes
        is_over = progress.done_bytes >= progress.total_bytes
        if now - self._drawn_at >= SECONDS_BETWEEN or is_over:
            began, before = self._begun or (now, progress.done_bytes)
            self._draw(progress_line(progress, progress.done_bytes - before, now - began))
            self._drawn_at = now

    def _draw(self, line: str) -> None:
        if self._is_shown and line != self._drawn:
            click.echo(
                "\r" + line.ljust(len(self._drawn)) + ("" if line else "\r"), nl=False, err=True
            )
            self._drawn = line
