"""Requests without a sequence id: who is next, and what each waits for."""

from __future__ import annotations

from dataclasses import dataclass

from edgekv.core.request import Priority, Request, RequestId, Token
from edgekv.core.sequence import Sequence
from edgekv.kv.claims import Claim

RANKS = {Priority.INTERACTIVE: 0, Priority.NORMAL: 1, Priority.BATCH: 2}

OVERTAKES_A_TURN = 16
"""After so many starts that overtook an older request it is the oldest one's turn, whatever its
priority. So a stream of important requests leaves one start in so many to the others, and a burst
of them comes first almost whole.
"""


@dataclass(slots=True, eq=False)
class Waiting:
    request: Request
    arrival: int
    tokens: list[Token]
    """All there is to compute before the next one can be sampled."""
    rank: int
    """The lowest comes first."""
    num_overtaken: int = 0
    num_had: int = 0
    """Tokens that had cells before it was suspended."""
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
    def own_rank(self) -> int:
        """Of its priority, whoever's turn it is."""
        return RANKS[self.request.priority]

    @property
    def num_generated(self) -> int:
        return len(self.tokens) - len(self.request.prompt)

    @property
    def place(self) -> tuple[int, bool, int]:
        """By rank; then those that were suspended, then the others, both oldest first."""
        return self.rank, not self.is_suspended, self.arrival


class WaitingLine:
    def __init__(self) -> None:
        self._entries: dict[RequestId, Waiting] = {}
        self._in_order: list[Waiting] | None = None
        """None once that has changed."""
        self._num_arrived = 0
        self._num_overtakes = 0
        """Starts that overtook an older request since it was the oldest one's turn."""
        self.num_suspended = 0

    def __len__(self) -> int:
        """Those suspended included."""
        return len(self._entries)

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._entries

    def submit(self, request: Request) -> None:
        self._num_arrived += 1
        rank = RANKS[request.priority]
        self._add(Waiting(request, self._num_arrived, list(request.known), rank))

    def suspend(self, seq: Sequence, claim: Claim) -> None:
        """Take back a running sequence, with the place it had."""
        entry = Waiting(
            seq.request,
            seq.arrival,
            seq.tokens,
            seq.rank,
            num_overtaken=seq.num_overtaken,
            num_had=max(seq.num_had, seq.num_computed),
            claim=claim,
        )
        self._add(entry)
        self.num_suspended += 1

    def leave(self, request_id: RequestId) -> Waiting | None:
        """Take a request out, if it is here."""
        entry = self._entries.pop(request_id, None)
        if entry is not None:
            self._in_order = None
            self.num_suspended -= entry.is_suspended
        return entry

    def in_order(self) -> list[Waiting]:
        """The next to start first."""
        if self._in_order is None:
            self._in_order = sorted(self._entries.values(), key=lambda entry: entry.place)
        return self._in_order

    def overtake(self, started: Waiting) -> None:
        """A request has started: the older ones that still wait have been overtaken."""
        older = [e for e in self._entries.values() if e.arrival < started.arrival]
        for entry in older:
            entry.num_overtaken += 1
        self._num_overtakes += bool(older)
        if self._num_overtakes >= OVERTAKES_A_TURN:
            self._num_overtakes = 0
            self._give_turn()

    def check_integrity(self) -> None:
        assert self.num_suspended == sum(entry.is_suspended for entry in self._entries.values())
        assert sorted(self.in_order(), key=lambda entry: entry.place) == self.in_order()
        assert len(self.in_order()) == len(self._entries)

    def _give_turn(self) -> None:
        """Move the oldest of those that have not the first rank up to it, for good."""
        others = [entry for entry in self._entries.values() if entry.rank > 0]
        if others:
            min(others, key=lambda entry: entry.arrival).rank = 0
            self._in_order = None

    def _add(self, entry: Waiting) -> None:
        self._entries[entry.request.id] = entry
        self._in_order = None
