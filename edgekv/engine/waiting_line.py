"""Requests without a sequence id: who is next, and what each waits for."""

from __future__ import annotations

from dataclasses import dataclass

from edgekv.core.request import Priority, Request, RequestId, Token
from edgekv.core.sequence import Sequence
from edgekv.kv.claims import Claim

RANKS = {Priority.INTERACTIVE: 0, Priority.NORMAL: 1, Priority.BATCH: 2}

OVERTAKES_A_RANK = 16
"""A request moves up one rank whenever so many younger ones have started before it."""


@dataclass(slots=True, eq=False)
class Waiting:
    request: Request
    arrival: int
    tokens: list[Token]
    """All there is to compute before the next one can be sampled."""
    num_overtaken: int = 0
    num_lost: int = 0
    """Tokens that had cells when it was suspended."""
    claim: Claim | None = None
    """On the copies of those cells; None for one that never ran."""
    leader: Sequence | None = None
    """This sequence is about to compute the first `leader_length` of the tokens."""
    leader_length: int = 0
    no_room_since: int = -1
    """It found no room when so many requests had left. Room comes only when one leaves."""

    @property
    def is_suspended(self) -> bool:
        return self.claim is not None

    @property
    def num_generated(self) -> int:
        return len(self.tokens) - len(self.request.prompt)

    @property
    def rank(self) -> int:
        """The lowest comes first."""
        return max(0, RANKS[self.request.priority] - self.num_overtaken // OVERTAKES_A_RANK)

    @property
    def place(self) -> tuple[int, bool, int]:
        """By rank; then those that were suspended, then the others, both oldest first."""
        return self.rank, not self.is_suspended, self.arrival


class WaitingLine:
    def __init__(self) -> None:
        self._entries: dict[RequestId, Waiting] = {}
        self._num_arrived = 0
        self.num_suspended = 0

    def __len__(self) -> int:
        """Those suspended included."""
        return len(self._entries)

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._entries

    def submit(self, request: Request) -> None:
        self._num_arrived += 1
        entry = Waiting(request, self._num_arrived, list(request.known))
        self._entries[request.id] = entry

    def suspend(self, seq: Sequence, claim: Claim) -> None:
        """Take back a running sequence, with the place it had."""
        self._entries[seq.request.id] = Waiting(
            seq.request,
            seq.arrival,
            seq.tokens,
            num_overtaken=seq.num_overtaken,
            num_lost=seq.num_computed,
            claim=claim,
        )
        self.num_suspended += 1

    def leave(self, request_id: RequestId) -> Waiting | None:
        """Take a request out, if it is here."""
        entry = self._entries.pop(request_id, None)
        if entry is not None and entry.is_suspended:
            self.num_suspended -= 1
        return entry

    def in_order(self) -> list[Waiting]:
        return sorted(self._entries.values(), key=lambda entry: entry.place)

    def overtake(self, started: Waiting) -> None:
        """A request has started: the older ones that still wait have been overtaken."""
        for entry in self._entries.values():
            if entry.arrival < started.arrival:
                entry.num_overtaken += 1
