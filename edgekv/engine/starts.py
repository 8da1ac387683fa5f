"""Requests that run from now on."""

from __future__ import annotations

from dataclasses import dataclass

from edgekv.core.inspection import PromptStart
from edgekv.core.sequence import Sequence
from edgekv.kv.cell_cache import Acquired


@dataclass(frozen=True, slots=True)
class Start:
    """A sequence that has an id now. `acquired` says what of its tokens needs no computing."""

    seq: Sequence
    acquired: Acquired
    is_first: bool
    """Its request never ran before."""

    @property
    def found(self) -> PromptStart:
        """For people: what of the prompt was there."""
        request, acquired = self.seq.request, self.acquired
        return PromptStart(
            request.id,
            len(request.prompt),
            acquired.num_reused,
            acquired.num_restored,
            acquired.miss,
        )
