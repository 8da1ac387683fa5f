"""A KV type is earned: a plan chooses by itself only what passed the gate on this model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgekv.budget.machine import MIB
from edgekv.budget.outcomes import Outcome, kv_words, trusted
from edgekv.budget.wish import Wish
from tests.unit.budget_models import Q8_PASSED, plan, with_memory

SHORT = with_memory(560 * MIB)
"""Too little for what people need, unless keys and values get smaller."""
Q8_REFUSED = replace(Q8_PASSED, objection="it loses 3 of 8 answers that f16 finds, and gains 0")
Q4_PASSED = Outcome("q4_0", "q4_0", quick=False, longest=8192, objection=None)
MIXED_PASSED = Outcome("q8_0", "q4_0", quick=False, longest=8192, objection=None)


def types(*tested: Outcome, wish: Wish = SHORT) -> tuple[str, str]:
    choice = plan(wish, tested=tested).choice
    return choice.kv_type_k, choice.kv_type_v


def test_without_any_test_keys_and_values_stay_f16() -> None:
    assert types() == ("f16", "f16")
    assert any("validate --quick" in sentence for sentence in plan(SHORT, tested=()).limits)


def test_where_memory_is_plenty_nobody_is_told_to_test() -> None:
    assert not any("validate" in sentence for sentence in plan(tested=()).limits)


def test_q8_0_is_chosen_after_a_quick_check() -> None:
    assert types(Q8_PASSED) == ("q8_0", "q8_0")
    limits = plan(SHORT, tested=(Q8_PASSED,)).limits
    assert any("passed the quick check" in sentence for sentence in limits)


def test_a_type_that_was_refused_is_not_chosen() -> None:
    assert types(Q8_REFUSED) == ("f16", "f16")


def test_below_q8_0_a_quick_check_is_not_enough() -> None:
    assert types(replace(Q4_PASSED, quick=True)) == ("f16", "f16")
    assert types(Q4_PASSED) == ("q4_0", "q4_0")


def test_below_q8_0_a_conversation_gets_no_longer_than_was_tested() -> None:
    needy = with_memory(400 * MIB, slots=1)
    for longest in (8192, 12_288):
        tested = (replace(Q4_PASSED, longest=longest),)
        assert plan(needy, tested=tested).choice.context_length <= longest
    assert types(replace(Q4_PASSED, longest=4096)) == ("f16", "f16"), "people need 8,192"


def test_q8_0_that_was_tested_in_less_than_a_quick_check_goes_no_further() -> None:
    assert Q8_PASSED.longest >= 2048
    assert Q8_PASSED.most_context is None
    short = replace(Q8_PASSED, longest=832)
    assert types(short) == ("f16", "f16")
    forced = replace(SHORT, kv_type_k="q8_0", kv_type_v="q8_0", context_length=4096)
    assert plan(forced, tested=(short,)).kv_standing == "unvalidated"
    assert plan(forced, tested=(Q8_PASSED,)).kv_standing == "passed"


def test_a_plan_says_what_its_longest_conversations_take_on_trust() -> None:
    wish = Wish(kv_type_k="q8_0", kv_type_v="q8_0", context_length=8192)
    longer = (
        "q8_0 passed the quick check on this model, up to 2,048 tokens; longer conversations are "
        "taken on trust, and 'edgekv validate --kv-type q8_0 --longest 8192' tests them."
    )
    assert longer in plan(wish, tested=(replace(Q8_PASSED, quick=True, longest=2048),)).limits
    whole = replace(Q8_PASSED, quick=False, longest=8192)
    assert (
        "q8_0 passed the gate on this model, up to 8,192 tokens."
        in plan(wish, tested=(whole,)).limits
    )


def test_of_those_that_passed_the_most_precise_that_reaches_as_far_is_chosen() -> None:
    tested = (Q4_PASSED, MIXED_PASSED, Q8_PASSED)
    assert [test.types for test in trusted(tested)] == [
        ("q8_0", "q8_0"),
        ("q8_0", "q4_0"),
        ("q4_0", "q4_0"),
    ]
    assert types(*tested, wish=with_memory(560 * MIB)) == ("q8_0", "q8_0")


def test_what_the_user_fixed_for_keys_leaves_only_pairs_with_it() -> None:
    wish = replace(SHORT, kv_type_k="q8_0")
    assert types(MIXED_PASSED, Q4_PASSED, wish=wish)[0] == "q8_0"
    assert types(Q4_PASSED, wish=wish) == ("q8_0", "f16")


@pytest.mark.parametrize(
    ("tested", "words"),
    [
        ((), "q4_0 is unvalidated on this model"),
        ((replace(Q4_PASSED, objection="it is bad"),), "q4_0 is refused by the gate on this model"),
        ((Q4_PASSED,), "q4_0 passed the gate on this model, up to 8,192 tokens."),
        (
            (replace(Q4_PASSED, longest=4096),),
            "q4_0 passed the gate on this model, up to 4,096 tokens; longer conversations are "
            "unvalidated, and 'edgekv validate --kv-type q4_0 --longest 8192' tests them.",
        ),
        (
            (replace(Q4_PASSED, longest=2048, quick=True),),
            "q4_0 passed the quick check on this model, up to 2,048 tokens, and is unvalidated "
            "beyond it; 'edgekv validate --kv-type q4_0' tests",
        ),
    ],
)
def test_a_forced_type_is_kept_and_its_standing_said(
    tested: tuple[Outcome, ...], words: str
) -> None:
    made = plan(Wish(kv_type_k="q4_0", kv_type_v="q4_0", context_length=8192), tested=tested)
    assert (made.choice.kv_type_k, made.choice.kv_type_v) == ("q4_0", "q4_0")
    assert any(sentence.startswith(words) for sentence in made.limits)


def test_exact_types_need_no_test() -> None:
    assert plan(Wish(kv_type_k="f16", kv_type_v="bf16"), tested=()).kv_standing is None
    assert plan(Wish(kv_type_k="f16", kv_type_v="q8_0"), tested=()).kv_standing == "unvalidated"


@pytest.mark.parametrize(
    ("tested", "words"),
    [
        ((), "q4_0 (unvalidated)"),
        ((replace(Q4_PASSED, objection="it is bad"),), "q4_0 (refused)"),
        ((replace(Q4_PASSED, longest=4096),), "q4_0 (unvalidated)"),
        ((Q4_PASSED,), "q4_0"),
    ],
)
def test_wherever_types_are_named_it_is_said_if_they_are_not_to_be_trusted(
    tested: tuple[Outcome, ...], words: str
) -> None:
    made = plan(Wish(kv_type_k="q4_0", kv_type_v="q4_0", context_length=8192), tested=tested)
    assert kv_words(made) == words
