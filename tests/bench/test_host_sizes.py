"""What `bench.host_sizes` says of conversations that come back."""

from __future__ import annotations

from bench.host_sizes import hit_rates
from edgekv.traffic.room import Room
from edgekv.traffic.trace import Row, Trace, Traced

LENGTH, BLOCK = 60, 10
ROOM = Room(slots=1, kept=4, cells=2 * LENGTH, context_length=2 * LENGTH, batch=64)


def asked(number: int, conversation: int) -> Traced:
    blocks = tuple(range(100 * conversation, 100 * conversation + LENGTH // BLOCK))
    return Traced(number, float(number), Row(0, LENGTH, 1, blocks, BLOCK))


def test_a_place_for_all_conversations_brings_back_what_the_pool_had_to_drop() -> None:
    rounds = [conversation for _ in range(2) for conversation in range(6)]
    trace = Trace(tuple(asked(n, conversation) for n, conversation in enumerate(rounds)))
    nowhere, for_all = hit_rates(trace, ROOM, [0, 7 * LENGTH])
    assert nowhere == 0
    # Of half of the prompts all but the last token, whose logits are wanted.
    assert for_all == (LENGTH - 1) / LENGTH / 2
