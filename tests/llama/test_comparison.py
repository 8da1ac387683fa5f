"""KV types compared on real weights."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

import pytest
from msgspec.structs import replace

from edgekv.core.comparison import Likeness, Passage, Scored
from edgekv.core.plan import Choice, Opening
from edgekv.core.request import Segment, Token
from edgekv.llama import library
from edgekv.llama.comparison import LlamaComparison, LlamaComparisonLibrary
from edgekv.llama.vocabulary import LlamaVocabulary

pytestmark = pytest.mark.llama

STARTER = Path(__file__).parents[2] / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
PROSE = (
    "The sea was quiet that morning, and the old fisherman rowed out before the sun had come "
    "up over the hills. He had not caught a fish for many days, but he did not think of that."
)
CHOICE = Choice(
    context_length=512,
    slots=1,
    cells=512,
    kv_type_k="f16",
    kv_type_v="f16",
    gpu_layers=0,
    batch=64,
    ubatch=64,
    swa_full=True,
    flash_attention=True,
    kept=6,
    threads=1,
)


def opened(*kv_types: str) -> tuple[LlamaComparison, LlamaVocabulary]:
    reference = Opening(str(STARTER), CHOICE)
    candidates = [
        Opening(str(STARTER), replace(CHOICE, kv_type_k=kv_type, kv_type_v=kv_type))
        for kv_type in kv_types
    ]
    return LlamaComparisonLibrary().open_comparison(reference, candidates, lambda _: None)


def compared(
    comparison: LlamaComparison, *texts: Scored, candidates: Sequence[int] = (0,)
) -> tuple[tuple[Likeness, ...], ...]:
    heard: list[float] = []
    found = comparison.compare(Passage(texts), candidates, heard.append)
    assert heard == sorted(heard), "progress goes one way"
    assert 0.9 < heard[-1] <= 1, "what is predicted last needs no cell"
    return found


@pytest.fixture(scope="module")
def same() -> Iterator[tuple[LlamaComparison, LlamaVocabulary]]:
    comparison, vocabulary = opened("f16")
    yield comparison, vocabulary
    comparison.close()


def tokens(vocabulary: LlamaVocabulary) -> tuple[Token, ...]:
    return tuple(vocabulary.tokenize([Segment(PROSE, control=False)]))


def test_a_kv_type_does_not_differ_from_itself(
    same: tuple[LlamaComparison, LlamaVocabulary],
) -> None:
    comparison, vocabulary = same
    ((likeness,),) = compared(comparison, Scored(tokens(vocabulary), 1))
    assert likeness.logprobs == likeness.reference_logprobs
    assert max(likeness.divergences) == 0
    assert all(likeness.agreements)
    assert len(likeness.hits) == len(tokens(vocabulary)) - 1
    assert 0 < fmean(likeness.hits) < 1, "the model predicts some of the words, not all"


def test_what_comes_after_a_shared_part_is_predicted_as_it_is_alone(
    same: tuple[LlamaComparison, LlamaVocabulary],
) -> None:
    comparison, vocabulary = same
    words = tokens(vocabulary)
    first, second = Scored(words, 30), Scored((*words[:25], *words[5:20]), 30)
    (both,) = compared(comparison, first, second)
    alone = [compared(comparison, text)[0][0] for text in (first, second)]
    for shared, single in zip(both, alone, strict=True):
        # Not to the bit: another batch shape rounds otherwise.
        assert shared.logprobs == pytest.approx(single.logprobs, abs=0.5)
        assert fmean(shared.logprobs) == pytest.approx(fmean(single.logprobs), abs=0.05)


def test_two_bits_ruin_this_model_and_eight_do_not() -> None:
    comparison, vocabulary = opened("q8_0", "q2_0")
    text = Scored(tokens(vocabulary), 1)
    ((eight,), (two,)) = compared(comparison, text, candidates=(0, 1))
    ((two_alone,),) = compared(comparison, text, candidates=(1,))
    comparison.close()
    assert two_alone == two, "a candidate is the same in any company"
    assert 0 < fmean(eight.divergences) < 0.02
    assert fmean(two.divergences) > 10 * fmean(eight.divergences)


def test_llama_cpp_can_still_log_when_nobody_holds_a_library_any_more() -> None:
    recorder = weakref.ref(library.start())
    gc.collect()
    assert recorder() is not None, "llama.cpp would call freed memory"
