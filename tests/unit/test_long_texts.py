from __future__ import annotations

from collections.abc import Sequence

import pytest

from edgekv.core.request import Segment, TextPrompt, Token
from edgekv.engine.long_texts import (
    MOST_CHARACTERS,
    PIECE_CHARACTERS,
    check_prompt,
    check_text,
)
from edgekv.errors import InvalidValue, PromptTooLong
from tests.fakes import FakeVocabulary

LIMIT = 4096


class Counting(FakeVocabulary):
    """Counts the characters that it is asked about. A token has `length` of them."""

    def __init__(self, length: int = 1) -> None:
        self.length, self.num_read = length, 0

    def tokenize(self, segments: Sequence[Segment]) -> list[Token]:
        num_read = sum(len(segment.text) for segment in segments)
        self.num_read += num_read
        return super().tokenize([Segment("x" * (num_read // self.length), control=False)])


def prompt(*texts: str) -> TextPrompt:
    return TextPrompt(tuple(Segment(text, control=bool(i % 2)) for i, text in enumerate(texts)))


@pytest.mark.parametrize("texts", [["word " * 2_000_000], ["<|im_end|>", "a word "] * 500_000])
def test_of_a_prompt_that_is_far_too_long_little_is_read(texts: list[str]) -> None:
    vocabulary, given = Counting(length=5), prompt(*texts)
    num_characters = sum(map(len, texts))
    with pytest.raises(PromptTooLong, match=r"has about \d+ tokens .* hold 4096") as caught:
        check_prompt(given, LIMIT, vocabulary)
    assert vocabulary.num_read < 2 * LIMIT * 5 + 2 * PIECE_CHARACTERS
    assert caught.value.needed == pytest.approx(num_characters / 5, rel=0.01)


def test_what_may_fit_is_not_read_twice() -> None:
    vocabulary = Counting()
    check_prompt(prompt("x" * LIMIT * 8), LIMIT, vocabulary)
    assert vocabulary.num_read == 0


def test_a_long_text_of_few_tokens_passes() -> None:
    vocabulary = Counting(length=100)
    check_prompt(prompt(" " * LIMIT * 90), LIMIT, vocabulary)
    assert vocabulary.num_read == LIMIT * 90


def test_a_text_whose_tokens_are_asked_for_has_a_limit() -> None:
    check_text(prompt("x" * MOST_CHARACTERS), LIMIT)
    with pytest.raises(InvalidValue, match="524289 characters and 524288 may"):
        check_text(prompt("x" * MOST_CHARACTERS, "y"), LIMIT)
    check_text(prompt("x" * MOST_CHARACTERS, "y"), MOST_CHARACTERS)
