"""The history of this user, or one in memory where there can be none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edgekv.config.places import HOME_VARIABLE
from edgekv.errors import NotSaved, Unavailable
from edgekv.history.entries import ConversationId
from edgekv.history.returning import write_back
from edgekv.history.store import History, default_path


class Archive:
    """`problem` says why nothing is saved, if that is not as the user wants it."""

    def __init__(self, path: Path | None) -> None:
        """Opens the file at `path`. None: nothing is to be saved, which is no problem."""
        self.problem = ""
        self._path = path
        self._counterparts: dict[ConversationId, ConversationId] = {}
        """Of conversations that went on in memory, those in the file."""
        self.was_broken_off = False
        """The last program ended in the middle of an answer, in the conversation `to_open`."""
        self.to_open: ConversationId | None = None
        """Where to go on, rather than in a new conversation."""
        try:
            self.history = History(path)
            self.history.purge()
            broken = self.history.settle_broken()
        except (NotSaved, Unavailable) as error:
            self.go_on_in_memory(error)
        else:
            self.was_broken_off = bool(broken)
            self.to_open = broken[0] if broken else None

    @classmethod
    def of_user(cls) -> Archive:
        """That of whoever runs this program."""
        path = default_path()
        archive = cls(path)
        if path is None:
            archive.problem = (
                f"There is no home folder to save conversations in; set {HOME_VARIABLE} to a "
                "folder that you may write to."
            )
        return archive

    @property
    def is_saved(self) -> bool:
        return self.history.path is not None

    def resume_last(self) -> None:
        """Go on with the conversation that was changed last. Raises `Unavailable` without one."""
        listed = self.history.listed()
        if not listed:
            raise Unavailable("There is no saved conversation to continue; leave --continue out.")
        self.to_open = self.to_open or listed[0].id

    def go_on_in_memory(self, problem: Exception) -> None:
        """An empty history that ends with the program takes the place of the one that failed."""
        self.problem = str(problem)
        self.history = History(None)

    def come_back(self) -> Mapping[ConversationId, ConversationId]:
        """Write to the file again if that works by now, first of all what is in memory alone.

        Returns the conversations' numbers in the file by those in memory; nothing if it fails.
        """
        if self.is_saved:
            self.problem = ""
        if self.is_saved or self._path is None:
            return {}
        try:
            file = History(self._path)
        except (NotSaved, Unavailable):
            return {}
        try:
            write_back(self.history, file, self._counterparts)
        except NotSaved:
            file.close()
            return {}
        self.history.close()
        self.history, self.problem = file, ""
        counterparts, self._counterparts = self._counterparts, {}
        return counterparts

    def stands_for(self, in_memory: ConversationId, in_file: ConversationId) -> None:
        """The one goes on where the other could not be written."""
        self._counterparts[in_memory] = in_file

    def close(self) -> None:
        """Safe to call twice."""
        self.history.close()
