"""The history of this user, or one in memory where there can be none."""

from __future__ import annotations

from pathlib import Path

from edgekv.errors import NotSaved, Unavailable
from edgekv.history.entries import ConversationId
from edgekv.history.store import History


class Archive:
    """`problem` says why nothing is saved; while all is well it is empty."""

    def __init__(self, path: Path | None) -> None:
        """Opens the file at `path`. None: nothing is to be saved, which is no problem."""
        self.problem = ""
        self.broken: tuple[ConversationId, ...] = ()
        """Where a program ended in the middle of an answer, the last first."""
        try:
            self.history = History(path)
            self.history.purge()
            self.broken = self.history.settle_broken()
        except (NotSaved, Unavailable) as error:
            self.go_on_in_memory(error)

    @property
    def is_saved(self) -> bool:
        return self.history.path is not None

    def go_on_in_memory(self, problem: Exception) -> None:
        """An empty history that ends with the program takes the place of the one that failed."""
        self.problem = str(problem)
        self.history = History(None)

    def close(self) -> None:
        """Safe to call twice."""
        self.history.close()
