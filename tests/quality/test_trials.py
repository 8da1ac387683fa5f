"""What the gate asks: hidden facts, and the tokens that are scored."""

from __future__ import annotations

import asyncio

import pytest

from bench import held_out
from edgekv.core.comparison import Likeness, Passage, Scored
from edgekv.core.request import Token
from edgekv.quality.material import Material, constitution
from edgekv.quality.passages import ask
from edgekv.quality.trials import Trial, haystack, trials


def spelled(text: str) -> tuple[Token, ...]:
    return tuple(Token(byte) for byte in text.encode())


async def by_letters(text: str) -> tuple[Token, ...]:
    return (Token(0), *spelled(text))


async def by_words(text: str) -> tuple[Token, ...]:
    """Tokens that reach over the border of question and answer, as a real vocabulary's may."""
    return tuple(Token(hash(word) % 50_000) for word in text.split(" "))


@pytest.mark.parametrize("material", [constitution(), held_out.material(3)])
def test_every_needle_is_in_the_text_once_at_its_depth(material: Material) -> None:
    hay = haystack(20_000, 3, material)
    for needle in hay.needles:
        sentence = material.form.sentence(needle)
        assert hay.text.count(sentence) == 1
        found = hay.text.index(sentence) / len(hay.text)
        assert abs(found - needle.depth) < 0.05


@pytest.mark.parametrize("material", [constitution(), held_out.material(3)])
def test_no_two_needles_share_a_word_that_tells_them_apart(material: Material) -> None:
    hay = haystack(20_000, 3, material)
    words = [word for needle in hay.needles for word in needle.item.split()]
    assert len(set(words)) == len(words)


def test_the_same_seed_hides_the_same_and_another_seed_others() -> None:
    usual = constitution()
    assert haystack(5000, 1, usual) == haystack(5000, 1, usual)
    assert haystack(5000, 1, usual).needles != haystack(5000, 2, usual).needles


def test_a_text_is_about_as_long_as_asked_even_beyond_the_prose() -> None:
    whole = len(" ".join(constitution().sentences))
    for length in (4000, 3 * whole):
        assert abs(len(haystack(length, 1, constitution()).text) / length - 1) < 0.1


def test_the_question_holds_no_answer() -> None:
    shown, needle = haystack(5000, 1, constitution()).needles[:2]
    form = constitution().form
    for asked, answer in (form.question(needle), form.tool_call(shown, needle)):
        assert needle.code in answer
        assert needle.code not in asked


def test_a_quick_check_asks_once_and_a_full_one_up_to_the_longest() -> None:
    assert [trial.length for trial in trials(2000, quick=True)] == [2000]
    assert [trial.length for trial in trials(16_384, quick=False)] == [2048, 4096, 8192, 16_384]
    assert [trial.length for trial in trials(1024, quick=False)] == [512, 1024]


@pytest.mark.parametrize("tokenise", [by_letters, by_words])
def test_only_answers_are_scored(tokenise: object) -> None:
    asked = asyncio.run(ask(Trial(3000, seed=1), tokenise))  # type: ignore[arg-type]
    hay_tokens = asked.passage.shared_length
    *needles, goes_on = asked.passage.texts
    assert len(needles) == 2 * 8 == len(asked.depths)
    assert all(hay_tokens < text.scored_from for text in needles)
    assert goes_on.scored_from in (hay_tokens, hay_tokens + 1)
    assert len({text.tokens for text in needles}) == len(needles)


@pytest.mark.parametrize("num_asked", [1, 4, 8])
def test_needles_are_asked_for_once_and_from_everywhere(num_asked: int) -> None:
    asked = asyncio.run(ask(Trial(4000, 1, num_asked), by_letters))
    assert len(set(asked.depths)) == len(asked.depths) == 2 * num_asked
    assert max(asked.depths) - min(asked.depths) >= 0.5 or num_asked == 1


def test_scores_keep_the_order_of_what_was_asked() -> None:
    asked = asyncio.run(ask(Trial(1000, seed=1), by_letters))
    likenesses = tuple(
        Likeness((-1.0,), (-1.0 - number,), (True,), (True,), (True,), (0.0,))
        for number in range(2 * 8 + 1)
    )
    measured = asked.measured(likenesses)
    assert [s.logprob for s in measured.needles] == [-1.0 - n for n in range(2 * 8)]
    assert [s.as_json for s in measured.needles] == [False] * 8 + [True] * 8
    assert measured.prose[0].logprob == -1.0 - 2 * 8


def test_what_texts_share_ends_before_what_any_prediction_needs() -> None:
    alike = Passage((Scored(spelled("abcdef"), 4), Scored(spelled("abcdxy"), 5)))
    assert alike.shared_length == 3, "the row after token 2 predicts nothing that is scored"
    assert alike.num_cells == 3 + 3 + 3
    assert Passage((Scored(spelled("abc"), 2), Scored(spelled("xbc"), 2))).shared_length == 0
    with pytest.raises(ValueError, match="at least is scored"):
        Scored(spelled("abc"), 3)
