"""What a bench makes of moments and counts, with numbers worked by hand."""

from __future__ import annotations

import pytest

from edgekv.budget.active import active_bytes
from edgekv.budget.wish import Wish
from edgekv.service.measured import (
    SHORTEST,
    Writing,
    advice,
    ceiling,
    counts,
    num_tokens_within,
    together,
)
from edgekv.service.measuring import CONTEXT, FEW, LONG_ANSWER, sized


def rows(*speeds: float) -> list[Writing]:
    return [Writing(2**power, speed) for power, speed in enumerate(speeds)]


def test_only_what_comes_while_all_answers_are_under_way_counts() -> None:
    early = [(0.0, 1), (1.0, 2), (2.0, 3), (3.0, 4)]
    late = [(1.0, 1), (2.0, 2), (3.0, 3), (4.0, 4)]
    # From 1 s to 3 s: two tokens of each.
    assert together([early, late]) == 4 / 2


def test_tokens_that_came_without_text_count_when_the_next_text_comes() -> None:
    assert together([[(0.0, 1), (2.0, 5)], [(0.0, 1), (1.0, 3), (2.0, 4)]]) == (4 + 3) / 2


def test_answers_that_were_never_under_way_together_have_no_speed() -> None:
    assert together([[(0.0, 1), (1.0, 2)], [(1.0, 1), (2.0, 2)]]) is None
    assert together([[(1.0, 1)]]) is None


@pytest.mark.parametrize(
    ("slots", "expected"), [(1, (1,)), (2, (1, 2)), (3, (1, 2, 3)), (16, (1, 2, 4, 8, 16))]
)
def test_twice_as_many_are_measured_each_time_and_in_the_end_all(
    slots: int, expected: tuple[int, ...]
) -> None:
    assert counts(slots) == expected


def test_an_answer_is_as_long_as_there_is_time_for() -> None:
    assert num_tokens_within(3.0, 20.0, 128) == 60
    assert num_tokens_within(30.0, 20.0, 128) == 128
    assert num_tokens_within(1.0, 0.1, 128) == SHORTEST


def test_the_ceiling_is_what_memory_gives_over_what_a_step_reads() -> None:
    assert ceiling(10e9, 4_000_000_000, 1) == 2.5
    assert ceiling(10e9, 4_000_000_000, 4) == 10.0


@pytest.mark.parametrize(
    ("measured", "sentence"),
    [
        (
            rows(10.0),
            "One answer has 10.0 tokens a second; only one slot was measured, so try more --slots.",
        ),
        (
            rows(10.0, 18.0, 30.0),
            "4 answers at once write most, 30.0 tokens a second together; "
            "--slots 8 may gain more, if memory has room for it.",
        ),
        (
            # 90 % of 20 is 18.
            rows(10.0, 18.0, 20.0, 19.0),
            "More than 2 slots gain little here: 2 answers at once write 18.0 tokens a second "
            "together, and more of them 20.0 at most.",
        ),
        (
            rows(10.0, 20.0, 17.0),
            "More than 2 slots gain little here: 2 answers at once write 20.0 tokens a second "
            "together, and more of them 17.0 at most.",
        ),
        (
            rows(10.0, 11.0, 9.0),
            "More slots gain nothing here: one answer has 10.0 tokens a second, "
            "several share 11.0.",
        ),
    ],
)
def test_the_advice_follows_from_where_speed_stops_to_grow(
    measured: list[Writing], sentence: str
) -> None:
    assert advice(measured) == sentence


def test_a_model_left_alone_is_opened_no_larger_than_the_measurement_needs() -> None:
    assert sized(Wish(), 1) == Wish(
        context_length=CONTEXT, slots=1, cells=CONTEXT, host_cache_bytes=0
    )
    assert sized(Wish(), 16).cells == 16 * (FEW + LONG_ANSWER)
    mine = Wish(context_length=300, slots=2, cells=512, host_cache_bytes=5)
    assert sized(mine, 2) == mine


PLAIN = {"general.architecture": "llama"}


def test_a_table_of_words_is_read_whole_only_where_it_is_the_output_as_well() -> None:
    tensors = [("token_embd.weight", 100), ("blk.0.attn_q.weight", 30)]
    assert active_bytes(tensors, PLAIN) == 130
    assert active_bytes([*tensors, ("output.weight", 60)], PLAIN) == 90
    assert active_bytes([*tensors, ("per_layer_token_embd.weight", 500)], PLAIN) == 130


def test_of_experts_those_that_a_token_uses_are_read_and_shared_ones_always() -> None:
    tensors = [
        ("output.weight", 10),
        ("blk.1.ffn_up_exps.weight", 800),
        ("blk.1.ffn_gate_up_exps.weight", 80),
        ("blk.1.ffn_up_shexp.weight", 7),
        ("blk.1.ffn_gate_inp.weight", 3),
    ]
    mixture = PLAIN | {"llama.expert_count": "8", "llama.expert_used_count": "2"}
    assert active_bytes(tensors, mixture) == 10 + 220 + 7 + 3
    assert active_bytes(tensors, PLAIN) == 900
