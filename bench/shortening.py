"""Traces of large services, shortened until a small model has the time for them."""

from __future__ import annotations

from dataclasses import replace

from edgekv.traffic.trace import Row, Trace


def shortened(trace: Trace, shorter: int) -> Trace:
    """The requests, so many times shorter; blocks shrink with their prompts."""
    return Trace(tuple(replace(r, row=_shortened(r.row, shorter)) for r in trace.requests))


def _shortened(row: Row, shorter: int) -> Row:
    num_answer = max(1, row.output_length // shorter)
    return Row(
        timestamp=row.timestamp,
        input_length=max(2, row.input_length // shorter),
        output_length=num_answer,
        hash_ids=row.hash_ids,
        # Rounded up, so that the blocks still cover the prompt.
        block_tokens=-(-row.block_tokens // shorter),
        max_tokens=num_answer,
    )
