"""The engine process's loop: commands in, frames out, one step at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TypeAlias

from msgspec.structs import replace

from edgekv.core.comparison import Compare, OpenComparison
from edgekv.core.events import ErrorInfo, Failed, Finished, FinishReason, StreamEvent
from edgekv.core.frames import (
    Accepted,
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
    Look,
    Looked,
    Open,
    Opened,
    Pin,
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
from edgekv.core.memory_frames import (
    Resize,
    Resized,
    Restrain,
    Restrained,
    Survey,
    Surveyed,
)
from edgekv.core.ports import ModelLibrary
from edgekv.core.request import RequestId
from edgekv.engine.compiling import Compiled, Compiling
from edgekv.engine.embedding import EmbeddingLine
from edgekv.engine.session import Session
from edgekv.errors import EdgeKVError, NotReady

Question: TypeAlias = Tokenize | Detokenize | Inspect | Look | Pin
"""What an open model answers at once."""


class Leave:
    """In the inbox: the front end is gone, and no command comes behind this."""


Inbox: TypeAlias = SimpleQueue[Command | Compiled | Leave]


@dataclass(frozen=True, slots=True)
class _Model:
    """An open model, and what is done for it beside or between its steps."""

    session: Session
    compiling: Compiling
    texts: EmbeddingLine


class EngineProcess:
    """Works for one front end. `inbox` may be filled by another thread; nothing else is shared."""

    def __init__(
        self,
        library: ModelLibrary,
        inbox: Inbox,
        send: Callable[[EngineFrame], None],
        *,
        resident_bytes: Callable[[], int],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`clock` gives seconds from any start on; only differences count."""
        self._library, self._inbox, self._send = library, inbox, send
        self._resident_bytes, self._clock = resident_bytes, clock
        self._model: _Model | None = None
        self._has_left = False

    @property
    def is_idle(self) -> bool:
        """Nothing is to be done until something comes in."""
        model = self._model
        return model is None or (model.session.is_idle and model.texts.is_empty)

    def run(self) -> None:
        """Work until the front end is gone and what it left behind is put away."""
        while not self._has_left:
            self.turn()

    def turn(self) -> None:
        """Take what arrived, waiting for it if there is no other work, then do one step."""
        for command in self._arrived():
            if isinstance(command, Leave):
                self._leave()
            else:
                self._obey(command)
        if self._model is None:
            return
        if not self._model.texts.is_empty and (reply := self._model.texts.embed_one()):
            self._send(reply)
        session = self._model.session
        if not session.is_idle:
            started = self._clock()
            self._tell(session.step())
            session.took(self._clock() - started)

    def _arrived(self) -> list[Command | Compiled | Leave]:
        commands = [] if self._has_work() else [self._inbox.get()]
        try:
            while True:
                commands.append(self._inbox.get_nowait())
        except Empty:
            return commands

    def _has_work(self) -> bool:
        """Whether there is a step to do, once what can wait has been done or a command came."""
        if not self.is_idle:
            return True
        while self._model is not None and self._inbox.empty() and self._model.session.rest():
            pass
        return False

    def _obey(self, command: Command | Compiled) -> None:
        match command:
            case Compiled():
                self._let_go(command)
            case Submit():
                self._submit(command)
            case Cancel(request_id):
                self._cancel(request_id)
            case CheckGrammar(call, grammar):
                if self._open_model().session.compiled(grammar) is None:
                    self._open_model().compiling.begin(grammar, command)
                else:
                    self._send(Accepted(call))
            case Embed():
                self._open_model().texts.add(command)
            case Resize() | Restrain():
                self._fit(command)
            case _:
                assert not isinstance(command, OpenComparison | Compare), "another process's work"
                self._reply_to(command)

    def _leave(self) -> None:
        """Write copies of what is kept, so that they outlive this process."""
        while self._model is not None and self.is_idle and self._model.session.rest():
            pass
        self._has_left = True

    def _submit(self, command: Submit) -> None:
        model, grammar = self._open_model(), command.sampling.grammar
        # Held until the session holds it, because the thread that compiles may drop it.
        compiled = model.session.compiled(grammar) if grammar else None
        if grammar and compiled is None:
            model.compiling.begin(grammar, command)
        else:
            self._tell_any(model.session.submit(command))

    def _cancel(self, request_id: RequestId) -> None:
        model = self._open_model()
        held = model.compiling.cancel(request_id)
        self._tell_any([_cancelled(held)] if held else model.session.cancel(request_id))

    def _let_go(self, compiled: Compiled) -> None:
        """Go on with the commands that waited for a grammar; those of a closed model are none."""
        for command in compiled.by.finish(compiled.grammar):
            if compiled.error is None:
                self._obey(command)
            elif isinstance(command, Submit):
                self._tell([Failed(command.request_id, ErrorInfo.of(compiled.error))])
            else:
                self._send(Refused(command.call, ErrorInfo.of(compiled.error)))

    def _fit(self, command: Resize | Restrain) -> None:
        """Hold less memory, or more. A pool that cannot be had ends the process: the front end
        starts it anew, and every request goes on from the tokens that its caller has.
        """
        session = self._open_model().session
        if isinstance(command, Resize):
            done = session.resize(command.choice)
            self._send(Resized(command.call, done.choice, done.allocation, done.num_carried))
        else:
            freed = session.restrain(command.restraint)
            self._send(Restrained(command.call, freed.num_cells, freed.num_bytes))
        self._tell([])

    def _reply_to(self, command: Describe | DryRun | Open | Survey | Question) -> None:
        try:
            self._send(self._reply(command))
        except EdgeKVError as error:
            self._send(Refused(command.call, ErrorInfo.of(error)))

    def _reply(self, command: Describe | DryRun | Open | Survey | Question) -> Reply:
        match command:
            case Describe(call, path):
                facts, devices = self._library.describe(path), self._library.devices()
                return Described(call, facts, devices, self._resident_bytes())
            case Survey(call):
                return Surveyed(call, self._library.devices())
            case DryRun(call, opening):
                return DryRunDone(call, self._library.dry_run(opening))
            case Open():
                return self._open(command)
            case _:
                return _ask(self._open_model().session, command)

    def _open(self, command: Open) -> Opened:
        if self._model is not None:
            self._close(self._model)
            self._model = None
        last = 0.0

        def on_progress(fraction: float) -> None:
            nonlocal last
            if fraction - last >= 0.01 or fraction == 1:
                last = fraction
                self._send(Progress(command.call, fraction))

        before = self._library.devices()
        backend, vocabulary, allocation = self._library.open(command.opening, on_progress)
        session = Session(backend, vocabulary, command.opening)
        self._model = _Model(
            session, Compiling(session.compile, self._inbox.put), EmbeddingLine(session.embed)
        )
        after = self._library.devices()
        return Opened(command.call, allocation, self._resident_bytes(), before, after)

    def _close(self, model: _Model) -> None:
        """Give the model's memory back, and everyone who waits for it an answer."""
        # Its grammars are compiled out of the model's vocabulary, so they come to an end first.
        waiting = [*model.compiling.close(), *model.texts.drop()]
        ended = [_cancelled(command) for command in waiting if isinstance(command, Submit)]
        self._tell([*ended, *model.session.close()])
        gone = ErrorInfo.of(NotReady("The model was closed; ask the one that is opened now."))
        for command in waiting:
            if not isinstance(command, Submit):
                self._send(Refused(command.call, gone))

    def _open_model(self) -> _Model:
        assert self._model is not None, "the front end opens a model before it asks one"
        return self._model

    def _tell_any(self, events: list[StreamEvent]) -> None:
        if events:
            self._tell(events)

    def _tell(self, events: list[StreamEvent]) -> None:
        snapshot = self._model.session.snapshot() if self._model else Snapshot()
        filled = replace(snapshot, resident_bytes=self._resident_bytes())
        self._send(StepFrame(tuple(events), filled))


def _cancelled(command: Submit) -> Finished:
    return Finished(command.request_id, FinishReason.CANCELLED, len(command.generated))


def _ask(session: Session, command: Question) -> Reply:
    match command:
        case Tokenize(call, prompt):
            return Tokens(call, session.tokenize(prompt))
        case Detokenize(call, tokens):
            return Text(call, session.detokenize(tokens))
        case Inspect(call):
            return Inspection(call, *session.inspect())
        case Pin(call, name, prompt, compute):
            session.pin(name, prompt, compute=compute)
            return Accepted(call)
        case Look(call):
            return Looked(call, session.look())
