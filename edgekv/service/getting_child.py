"""The process that gets a model for a screen. It may be killed at any time: the next goes on."""

from __future__ import annotations

import sys

from edgekv.errors import EdgeKVError
from edgekv.models.transfer import Progress
from edgekv.service.getting import get_model
from edgekv.service.getting_frames import Came, Got, Refused, Report, Said, line_of

STEPS = 1000
"""So often progress is told in all: a bar shows no more, and a parent has better to do."""


def main(name: str) -> None:
    """Get what `name` means and tell of it on stdout."""
    told = -1

    def hear(progress: Progress) -> None:
        nonlocal told
        step = STEPS * progress.done_bytes // max(1, progress.total_bytes)
        if step != told:
            told = step
            _tell(Came(progress))

    try:
        get_model(name, hear, lambda sentence: _tell(Said(sentence)))
    except EdgeKVError as error:
        _tell(Refused(str(error)))
    else:
        _tell(Got())


def _tell(report: Report) -> None:
    """A parent that is gone ends this process: nobody would read the next line either."""
    sys.stdout.buffer.write(line_of(report))
    sys.stdout.buffer.flush()
