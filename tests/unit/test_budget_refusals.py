"""A wish that cannot be kept is answered with one that can."""

from __future__ import annotations

import re

import pytest

from edgekv.budget.wish import Wish
from edgekv.errors import DoesNotFit, InvalidValue
from tests.unit.budget_models import (
    GIB,
    HYBRID,
    MIB,
    graphics,
    machine,
    model,
    plan,
    with_memory,
)


class TestImpossibleWishes:
    @pytest.mark.parametrize(
        ("wish", "remedy"),
        [
            (Wish(context_length=100_000), "--ctx 32768 or less"),
            (Wish(context_length=4096, cells=2048), "--ctx 2048 or less"),
            (Wish(slots=300), "--slots 255 or less"),
            (Wish(gpu_layers=4), "leave it out"),
        ],
    )
    def test_the_sentence_names_what_is_possible(self, wish: Wish, remedy: str) -> None:
        with pytest.raises(InvalidValue, match=remedy):
            plan(wish)

    def test_a_type_whose_blocks_the_layers_do_not_fill_is_refused(self) -> None:
        odd = model(
            attention__head_count_kv=1, attention__key_length=80, attention__value_length=80
        )
        with pytest.raises(InvalidValue, match="--kv-type f16"):
            plan(Wish(kv_type_k="q4_0"), facts=odd)

    def test_more_gpu_layers_than_there_are_is_refused(self) -> None:
        with pytest.raises(InvalidValue, match="--gpu-layers 17 or less"):
            plan(Wish(gpu_layers=99), gpu=graphics(8 * GIB))


class TestRefusals:
    def test_less_than_one_short_conversation_is_refused_with_both_numbers(self) -> None:
        with pytest.raises(DoesNotFit) as caught:
            plan(with_memory(300 * MIB))
        refused = caught.value
        assert refused.available == 300 * MIB < refused.needed
        assert f"--memory {-(-refused.needed // MIB)}MiB" in str(refused)

    def test_the_memory_it_asks_for_is_enough(self) -> None:
        with pytest.raises(DoesNotFit) as caught:
            plan(with_memory(300 * MIB))
        asked = int(str(caught.value).split("--memory ")[1].split("MiB")[0])
        assert plan(with_memory(asked * MIB)).choice.context_length == 512

    @pytest.mark.parametrize(
        ("option", "field", "value"),
        [("--ctx", "context_length", 32768), ("--cells", "cells", 60_000)],
    )
    def test_the_largest_value_it_names_fits_and_one_step_more_does_not(
        self, option: str, field: str, value: int
    ) -> None:
        def wish(number: int) -> Wish:
            return with_memory(600 * MIB, **{field: number})

        with pytest.raises(DoesNotFit) as caught:
            plan(wish(value))
        named = re.search(rf"{option} (\d+)\.", str(caught.value))
        assert named is not None
        largest = int(named[1])
        made = plan(wish(largest)).choice
        assert getattr(made, field) == largest
        with pytest.raises(DoesNotFit):
            plan(wish(largest + 256))

    def test_a_type_that_fits_is_named(self) -> None:
        facts = model(weight_bytes=64 * MIB)
        wish = with_memory(240 * MIB, kv_type_k="f32", kv_type_v="f32", context_length=2048)
        with pytest.raises(DoesNotFit, match=r"--ctx \d+|--kv-type"):
            plan(wish, facts=facts)

    @pytest.mark.parametrize("wished", [17, 9])
    def test_the_most_layers_that_fit_are_named_and_one_more_does_not(self, wished: int) -> None:
        facts, gpu = model(weight_bytes=4 * GIB), graphics(2 * GIB)
        with pytest.raises(DoesNotFit) as caught:
            plan(Wish(gpu_layers=wished), facts=facts, gpu=gpu)
        named = re.search(r"the most that fit are --gpu-layers (\d+)\.", str(caught.value))
        assert named is not None
        most = int(named[1])
        assert plan(Wish(gpu_layers=most), facts=facts, gpu=gpu).choice.gpu_layers == most
        with pytest.raises(DoesNotFit):
            plan(Wish(gpu_layers=most + 1), facts=facts, gpu=gpu)

    @pytest.mark.parametrize(
        ("gib", "words"),
        [
            (5.25, "Q4_K_M (about 4.6 GiB)"),
            (3.5, "Q2_K (about 3.0 GiB)"),
            (2, "or take a smaller model"),
        ],
    )
    def test_the_largest_quantisation_that_fits_is_named_with_its_size(
        self, gib: float, words: str
    ) -> None:
        facts = model(weight_bytes=8 * GIB)
        facts.metadata["general.file_type"] = "7"
        with pytest.raises(DoesNotFit) as caught:
            plan(facts=facts, host=machine(int(gib * GIB)))
        assert words in str(caught.value)
        if size := re.search(r"about ([\d.]+) GiB", words):
            smaller = model(weight_bytes=int(float(size[1]) * GIB))
            assert plan(facts=smaller, host=machine(int(gib * GIB))).fits

    def test_of_a_file_that_does_not_say_how_it_is_quantised_nothing_is_claimed(self) -> None:
        with pytest.raises(DoesNotFit, match=r"close other programs or take a smaller model\."):
            plan(facts=model(weight_bytes=8 * GIB), host=machine(5 * GIB))

    @pytest.mark.parametrize("wish", [Wish(), Wish(slots=4), with_memory(512 * MIB)])
    def test_no_number_of_slots_is_named_for_a_recurrent_model_whose_weights_do_not_fit(
        self, wish: Wish
    ) -> None:
        facts = model("qwen35", weight_bytes=2 * GIB, **HYBRID)
        with pytest.raises(DoesNotFit, match=r"close other programs or take a smaller model\.$"):
            plan(wish, facts, machine(GIB))
        facts.metadata["general.file_type"] = "1"
        with pytest.raises(DoesNotFit, match=r"take this model in Q\d_K\w* \(about"):
            plan(wish, facts, machine(GIB))

    def test_more_memory_is_named_where_a_given_amount_is_too_little_for_the_weights(self) -> None:
        facts = model("qwen35", weight_bytes=2 * GIB, **HYBRID)
        with pytest.raises(DoesNotFit, match=r"give it more --memory\.$"):
            plan(with_memory(GIB), facts, machine(8 * GIB))

    def test_a_refusal_is_one_sentence(self) -> None:
        with pytest.raises(DoesNotFit) as caught:
            plan(with_memory(300 * MIB, context_length=32768, slots=200))
        assert str(caught.value).count(". ") == 0
        assert str(caught.value).endswith(".")
