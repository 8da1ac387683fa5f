"""The engine's view of one running request."""

from __future__ import annotations

from dataclasses import dataclass

from edgekv.core.request import Request, SeqId, Token


@dataclass(slots=True, eq=False)
class Sequence:
    """A token list and how far its KV cells have caught up with it.

    There is no prefill or decode phase: a sequence is runnable while
    `tokens[num_computed:]` is not empty, whether that is one token or thousands.
    """

    request: Request
    seq_id: SeqId
    tokens: list[Token]
    num_computed: int
    """`tokens[:num_computed]` have KV cells."""
    stops: tuple[int, ...] = ()
    """No slice may go past one of these positions, but the one that starts there: there a copy of
    the cells is of use to others, or others wait for just so many tokens.
    """
    arrival: int = 0
    """Its place among all requests that ever came."""
    rank: int = 0
    """Of its priority, or of a more important request that waits for what it computes; the lowest
    rank is suspended last.
    """
    num_overtaken: int = 0
    """How many younger requests started before it."""
    num_had: int = 0
    """Tokens that had cells before it was suspended; those below that it has not are lost work."""
    share_end: int = 0
    """It is left alone until so many of its tokens have cells, as far as somebody else can go."""

    @property
    def num_pending(self) -> int:
        return len(self.tokens) - self.num_computed

    @property
    def num_generated(self) -> int:
        return len(self.tokens) - len(self.request.prompt)

    def slice_end(self, budget: int) -> int:
        """Up to where a step with room for `budget` tokens computes it."""
        end = min(self.num_computed + budget, len(self.tokens))
        return min([end, *(at for at in self.stops if at > self.num_computed)])

    def stop_at(self, length: int) -> None:
        """End a slice there, if it was not computed yet."""
        if length not in self.stops:
            self.stops += (length,)
