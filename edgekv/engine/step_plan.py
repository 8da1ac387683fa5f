"""Which tokens of the running sequences the next step decodes."""

from __future__ import annotations

from collections.abc import Collection

from edgekv.core.batch import BatchPlan, BatchSlice
from edgekv.core.sequence import Sequence
from edgekv.engine.pacing import Pace

OLDEST_PROMPT_PART = 4
"""The oldest prompt gets one part in so many of what a step has left for prompts, so that a
stream of others cannot hold it up for ever.
"""


def step_plan(running: Collection[Sequence], most_tokens: int, pace: Pace) -> BatchPlan:
    """At most so many tokens of sequences that come in the order of their starts.

    Answers under way come first, so that a long prompt never delays them; then prompts by rank,
    of each rank the shortest first.
    """
    answering = num_answering(running)
    budget, for_prompts = most_tokens, max(0, most_tokens - answering)
    if answering:
        for_prompts = min(for_prompts, pace.limit(for_prompts))
        budget = min(budget, answering + for_prompts)
    oldest = next((seq for seq in running if seq.num_pending > 1), None)
    held_back = _part_of(oldest, for_prompts) if oldest else 0
    budget -= held_back
    slices = []
    for seq in sorted(running, key=_turn):
        if seq is oldest:
            budget += held_back
        chunk = tuple(seq.tokens[seq.num_computed : seq.slice_end(budget)])
        if chunk:
            reaches_end = len(chunk) == seq.num_pending
            slices.append(BatchSlice(seq.seq_id, seq.num_computed, chunk, reaches_end))
            budget -= len(chunk)
    return BatchPlan(tuple(slices))


def num_answering(running: Collection[Sequence]) -> int:
    """How many of them go on by one token, as answers do."""
    return sum(1 for seq in running if seq.num_pending == 1)


def _turn(seq: Sequence) -> tuple[bool, int, int]:
    return seq.num_pending > 1, seq.rank, seq.num_pending


def _part_of(oldest: Sequence, for_prompts: int) -> int:
    """How much of a step's room for prompts is for the oldest, whatever the others want."""
    return min(oldest.num_pending, -(-for_prompts // OLDEST_PROMPT_PART))
