"""The loop of a process that compares ways to keep keys and values: no queue, no cache."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import NoReturn

from edgekv.core.comparison import Compare, Compared, ComparisonOpened, OpenComparison
from edgekv.core.events import ErrorInfo
from edgekv.core.frames import (
    Command,
    EngineFrame,
    Progress,
    Refused,
    Reply,
    Tokenize,
    Tokens,
)
from edgekv.core.ports import Comparison, ComparisonLibrary, Vocabulary
from edgekv.errors import EdgeKVError


class ComparisonProcess:
    """Works for one front end, which opens one comparison before anything else."""

    def __init__(
        self,
        library: ComparisonLibrary,
        inbox: SimpleQueue[Command],
        send: Callable[[EngineFrame], None],
    ) -> None:
        self._library, self._inbox, self._send = library, inbox, send
        self._open: tuple[Comparison, Vocabulary] | None = None

    def run(self) -> NoReturn:
        while True:
            self.turn()

    def turn(self) -> None:
        """Answer the next command, waiting for it."""
        command = self._inbox.get()
        assert isinstance(command, OpenComparison | Tokenize | Compare), command
        try:
            self._send(self._reply(command))
        except EdgeKVError as error:
            self._send(Refused(command.call, ErrorInfo.of(error)))

    def _reply(self, command: OpenComparison | Tokenize | Compare) -> Reply:
        if isinstance(command, OpenComparison):
            return self._open_comparison(command)
        assert self._open is not None, "the front end opens a comparison first"
        comparison, vocabulary = self._open
        if isinstance(command, Tokenize):
            return Tokens(command.call, tuple(vocabulary.tokenize(command.prompt.segments)))
        tell = self._teller(command.call)
        return Compared(command.call, comparison.compare(command.passage, command.candidates, tell))

    def _open_comparison(self, command: OpenComparison) -> ComparisonOpened:
        assert self._open is None, "a process opens one comparison"
        call = command.call
        self._open = self._library.open_comparison(
            command.reference,
            command.candidates,
            self._teller(call),
        )
        return ComparisonOpened(call)

    def _teller(self, call: int) -> Callable[[float], None]:
        """Tells the front end how far a call is, which is a sign of life as well."""
        return lambda fraction: self._send(Progress(call, fraction))
