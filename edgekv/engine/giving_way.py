"""Who is suspended when slots or cells run short, and for whom."""

from __future__ import annotations

from collections.abc import Callable, Collection

from edgekv.core.request import SeqId
from edgekv.core.sequence import Sequence

MIN_SHARE = 32
"""A resumed sequence gets by so many tokens further than it was before, and by as many as it had
to compute again, before it is suspended once more, if another one can be. So the work lost to
suspensions is never more than the work done.
"""


def share_end(num_had: int, num_known: int) -> int:
    """Up to where a sequence that had so many cells, and finds so many of them again, may go on."""
    return num_had + max(MIN_SHARE, num_had - num_known)


def for_cells(running: Collection[Sequence]) -> Sequence | None:
    """Who goes, so that the others may go on.

    The one of lowest priority, then the youngest; never the oldest of the highest, so that
    there is always one that comes to its end.
    """
    if len(running) < 2:
        return None
    senior = min(running, key=_seniority)
    others = [seq for seq in running if seq is not senior]
    return max([s for s in others if _had_its_share(s)] or others, key=_seniority)


def lowest_rank(running: Collection[Sequence]) -> int:
    """Only requests above it find anybody that would give way to them."""
    return max((seq.rank for seq in running if _had_its_share(seq)), default=0)


def for_request(
    running: Collection[Sequence],
    rank: int,
    *,
    num_slots: int,
    num_cells: int,
    freed_by: Callable[[SeqId], int],
) -> list[Sequence]:
    """Who goes, so that a request of this rank has so many more slots and cells.

    Only those of a lower priority, the lowest first; nobody if all of them are not enough.
    `freed_by` tells how many cells each gives back.
    """
    leaving: list[Sequence] = []
    for seq in sorted(running, key=_seniority, reverse=True):
        if len(leaving) >= num_slots and num_cells <= 0:
            break
        if seq.rank > rank and _had_its_share(seq):
            leaving.append(seq)
            num_cells -= freed_by(seq.seq_id)
    return leaving if len(leaving) >= num_slots and num_cells <= 0 else []


def _seniority(seq: Sequence) -> tuple[int, int]:
    """The lowest is suspended last."""
    return seq.rank, seq.arrival


def _had_its_share(seq: Sequence) -> bool:
    return seq.num_computed >= seq.share_end
