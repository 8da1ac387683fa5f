"""Grammars that are being compiled beside the steps, and the commands that wait for them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

from edgekv.core.frames import CheckGrammar, Submit
from edgekv.core.request import Grammar, RequestId
from edgekv.errors import EdgeKVError

Constrained: TypeAlias = Submit | CheckGrammar


@dataclass(frozen=True, slots=True)
class Compiled:
    """Its backend has this grammar ready, unless `error` says why not."""

    by: Compiling
    grammar: Grammar
    error: EdgeKVError | None


class Compiling:
    """Compiles one grammar after another on a thread of its own.

    `compile` runs on that thread, and so does `done`; everything else belongs to the caller's.
    """

    def __init__(
        self, compile_: Callable[[Grammar], None], done: Callable[[Compiled], None]
    ) -> None:
        self._compile, self._done = compile_, done
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="grammars")
        self._waiting: dict[Grammar, list[Constrained]] = {}

    def begin(self, grammar: Grammar, command: Constrained) -> None:
        """Hold a command until its grammar is `Compiled`."""
        if grammar in self._waiting:
            self._waiting[grammar].append(command)
        else:
            self._waiting[grammar] = [command]
            self._thread.submit(self._work, grammar)

    def finish(self, grammar: Grammar) -> list[Constrained]:
        """Let go of the commands that waited for a grammar, in the order they came."""
        return self._waiting.pop(grammar, [])

    def cancel(self, request_id: RequestId) -> Submit | None:
        """Forget a request that waits here."""
        for commands in self._waiting.values():
            for command in commands:
                if isinstance(command, Submit) and command.request_id == request_id:
                    commands.remove(command)
                    return command
        return None

    def close(self) -> list[Constrained]:
        """Wait for the thread to end; returns what waited."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        commands = [command for held in self._waiting.values() for command in held]
        self._waiting.clear()
        return commands

    def _work(self, grammar: Grammar) -> None:
        error = None
        try:
            self._compile(grammar)
        except EdgeKVError as refusal:
            error = refusal
        self._done(Compiled(self, grammar, error))
