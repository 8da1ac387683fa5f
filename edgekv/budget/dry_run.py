"""Asking the library's own allocator what a choice would take."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from edgekv.core.plan import Adapter, Allocation, Choice, ModelFacts, Opening

AskLibrary: TypeAlias = Callable[[Opening], Awaitable[Allocation]]


@dataclass(frozen=True, slots=True)
class DryRun:
    """A choice and what the library's allocator says it takes."""

    choice: Choice
    allocation: Allocation


class Allocator:
    """The library's allocator for one model. Each choice is asked about once.

    Raises `ModelError` with the library's words where it would refuse.
    """

    def __init__(
        self, facts: ModelFacts, ask_library: AskLibrary, adapters: tuple[Adapter, ...] = ()
    ) -> None:
        self._facts, self._ask_library, self._adapters = facts, ask_library, adapters
        self._runs: dict[Choice, DryRun] = {}

    def known(self, choice: Choice) -> DryRun | None:
        """The answer for a choice that was asked about before."""
        return self._runs.get(choice)

    async def run(self, choice: Choice) -> DryRun:
        if choice not in self._runs:
            opening = Opening(
                path=self._facts.path,
                choice=choice,
                adapters=self._adapters,
                share_prefixes=self._facts.can_share_prefixes(choice.swa_full),
            )
            self._runs[choice] = DryRun(choice, await self._ask_library(opening))
        return self._runs[choice]
