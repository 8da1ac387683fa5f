"""Texts that wait to be embedded: one between two steps, so that answers wait for one at most."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from edgekv.core.events import ErrorInfo
from edgekv.core.frames import Embed, Embedded, Refused
from edgekv.core.request import Token
from edgekv.errors import EdgeKVError


@dataclass(slots=True)
class _Job:
    command: Embed
    vectors: list[tuple[float, ...]] = field(default_factory=list)


class EmbeddingLine:
    """First come, first served; a call's reply comes with its last text."""

    def __init__(self, embed: Callable[[tuple[Token, ...]], tuple[float, ...]]) -> None:
        self._embed = embed
        self._jobs: deque[_Job] = deque()

    @property
    def is_empty(self) -> bool:
        return not self._jobs

    def add(self, command: Embed) -> None:
        self._jobs.append(_Job(command))

    def embed_one(self) -> Embedded | Refused | None:
        """Work on the first call; returns its reply if this was the last of its texts."""
        job = self._jobs[0]
        call, prompts = job.command.call, job.command.prompts
        if prompts:
            try:
                job.vectors.append(self._embed(prompts[len(job.vectors)]))
            except EdgeKVError as error:
                self._jobs.popleft()
                return Refused(call, ErrorInfo.of(error))
        if len(job.vectors) < len(prompts):
            return None
        self._jobs.popleft()
        return Embedded(call, tuple(job.vectors))

    def drop(self) -> list[Embed]:
        """Forget what waits; returns it."""
        commands = [job.command for job in self._jobs]
        self._jobs.clear()
        return commands
