"""The engine process's loop: commands in, frames out, one step at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import NoReturn, TypeAlias

from msgspec.structs import replace

from edgekv.core.events import ErrorInfo, StreamEvent
from edgekv.core.frames import (
    Cancel,
    CheckGrammar,
    Command,
    Describe,
    Described,
    Detokenize,
    DryRun,
    DryRunDone,
    Embed,
    EngineFrame,
    Inspect,
    Inspection,
    Open,
    Opened,
    Progress,
    Refused,
    Reply,
    Snapshot,
    StepFrame,
    Submit,
    Text,
    Tokenize,
    Tokens,
)
from edgekv.core.ports import ModelLibrary
from edgekv.engine.session import Session
from edgekv.errors import EdgeKVError, Unavailable

Question: TypeAlias = Tokenize | Detokenize | Inspect | CheckGrammar | Embed
"""What only an open model can answer."""
Call: TypeAlias = Describe | DryRun | Open | Question


class EngineProcess:
    """Works for one front end. `inbox` may be filled by another thread; nothing else is shared."""

    def __init__(
        self,
        library: ModelLibrary,
        inbox: SimpleQueue[Command],
        send: Callable[[EngineFrame], None],
        *,
        resident_bytes: Callable[[], int],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`clock` gives seconds from any start on; only differences count."""
        self._library, self._inbox, self._send = library, inbox, send
        self._resident_bytes, self._clock = resident_bytes, clock
        self._session: Session | None = None

    def run(self) -> NoReturn:
        while True:
            self.turn()

    def turn(self) -> None:
        """Take what arrived, waiting for it if there is no other work, then do one step."""
        for command in self._arrived():
            self._obey(command)
        if self._session is not None and not self._session.is_idle:
            started = self._clock()
            self._tell(self._session.step())
            self._session.took(self._clock() - started)

    def _arrived(self) -> list[Command]:
        commands = [] if self._has_work() else [self._inbox.get()]
        try:
            while True:
                commands.append(self._inbox.get_nowait())
        except Empty:
            return commands

    def _has_work(self) -> bool:
        """Whether there is a step to do, once what can wait has been done or a command came."""
        session = self._session
        if session is None or not session.is_idle:
            return session is not None
        while self._inbox.empty() and session.rest():
            pass
        return False

    def _obey(self, command: Command) -> None:
        if isinstance(command, Submit | Cancel):
            self._serve(command)
            return
        try:
            self._send(self._reply(command))
        except EdgeKVError as error:
            self._send(Refused(command.call, ErrorInfo.of(error)))

    def _serve(self, command: Submit | Cancel) -> None:
        session = self._open_session()
        if isinstance(command, Submit):
            events = session.submit(command)
        else:
            events = session.cancel(command.request_id)
        if events:
            self._tell(events)

    def _reply(self, command: Call) -> Reply:
        match command:
            case Describe(call, path):
                facts, devices = self._library.describe(path), self._library.devices()
                return Described(call, facts, devices, self._resident_bytes())
            case DryRun(call, opening):
                return DryRunDone(call, self._library.dry_run(opening))
            case Open():
                return self._open(command)
            case _:
                return _ask(self._open_session(), command)

    def _open(self, command: Open) -> Opened:
        if self._session is not None:
            self._tell(self._session.close())
            self._session = None
        last = 0.0

        def on_progress(fraction: float) -> None:
            nonlocal last
            if fraction - last >= 0.01 or fraction == 1:
                last = fraction
                self._send(Progress(command.call, fraction))

        backend, vocabulary, allocation = self._library.open(command.opening, on_progress)
        self._session = Session(backend, vocabulary, command.opening)
        return Opened(command.call, allocation)

    def _open_session(self) -> Session:
        assert self._session is not None, "the front end opens a model before it asks one"
        return self._session

    def _tell(self, events: list[StreamEvent]) -> None:
        snapshot = self._session.snapshot() if self._session else Snapshot()
        filled = replace(snapshot, resident_bytes=self._resident_bytes())
        self._send(StepFrame(tuple(events), filled))


def _ask(session: Session, command: Question) -> Reply:
    match command:
        case Tokenize(call, prompt):
            return Tokens(call, session.tokenize(prompt))
        case Detokenize(call, tokens):
            return Text(call, session.detokenize(tokens))
        case Inspect(call):
            return Inspection(call, *session.inspect())
        case CheckGrammar() | Embed():
            raise Unavailable("This build can neither hold answers to a grammar nor embed.")
