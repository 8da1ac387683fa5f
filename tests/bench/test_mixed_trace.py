"""The traces that every server of the suite gets, and conversations that come back."""

from __future__ import annotations

from itertools import pairwise

import pytest

from bench.mixed_trace import PARTS, Replay, mixed
from bench.necessary import Known
from bench.returning import Conversations

TRACE = mixed(112, seconds=60)


def test_both_traces_are_sent_within_the_given_time() -> None:
    arrivals = [request.arrival_seconds for request in TRACE.requests]
    assert arrivals == sorted(arrivals)
    assert arrivals[0] == 0
    assert arrivals[-1] == pytest.approx(60)
    shared = sum(bool(request.row.hash_ids) for request in TRACE.requests)
    assert (shared, len(arrivals)) == (112 // len(PARTS), 112)


def test_every_request_fits_into_the_context_that_servers_get() -> None:
    longest = max(r.row.input_length + r.num_answer for r in TRACE.requests)
    assert longest <= 2048


def test_only_what_shared_a_block_begins_alike_when_it_is_sent() -> None:
    replay, known, by_ids = Replay(TRACE, 40_009), Known(), Known()
    for request in TRACE.requests:
        new = by_ids.add(request.prompt)
        assert known.add(replay.prompt(request)) == pytest.approx(new, abs=2)


def test_no_two_conversations_begin_with_the_same_token() -> None:
    prompts = Conversations(36, 250, 40_009).prompts()
    assert {len(prompt) for prompt in prompts} == {250}
    assert len({prompt[0] for prompt in prompts}) == 36
    assert all(one[1:] != other[1:] for one, other in pairwise(prompts))
