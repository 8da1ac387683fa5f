"""The loop of the comparison process, with a library that needs no file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import SimpleQueue

from edgekv.core.comparison import (
    Compare,
    Compared,
    ComparisonOpened,
    Likeness,
    OpenComparison,
    Passage,
    Scored,
)
from edgekv.core.frames import Command, EngineFrame, Progress, Refused, Tokenize, Tokens
from edgekv.core.plan import Choice, Opening
from edgekv.core.request import Segment, TextPrompt, Token
from edgekv.engine.comparing import ComparisonProcess
from edgekv.errors import ModelError
from tests.fakes import FakeVocabulary

CHOICE = Choice(
    context_length=256,
    slots=1,
    cells=256,
    kv_type_k="f16",
    kv_type_v="f16",
    gpu_layers=0,
    batch=64,
    ubatch=64,
    swa_full=True,
    flash_attention=True,
)
OPENING = Opening("model.gguf", CHOICE)
PASSAGE = Passage((Scored((Token(1), Token(2)), 1),))
LIKENESS = Likeness((-1.0,), (-2.0,), (True,), (False,), (False,), (0.5,))


class Comparison:
    def compare(
        self,
        passage: Passage,
        candidates: Sequence[int],
        on_progress: Callable[[float], None],
    ) -> tuple[tuple[Likeness, ...], ...]:
        if len(passage.texts) > 1:
            raise ModelError("llama.cpp could not compute a passage.")
        on_progress(0.5)
        return tuple((LIKENESS,) for _ in candidates)

    def close(self) -> None: ...


class Library:
    def open_comparison(
        self,
        reference: Opening,
        candidates: Sequence[Opening],
        on_progress: Callable[[float], None],
    ) -> tuple[Comparison, FakeVocabulary]:
        on_progress(1.0)
        return Comparison(), FakeVocabulary()


def answers(*commands: Command) -> list[EngineFrame]:
    inbox: SimpleQueue[Command] = SimpleQueue()
    sent: list[EngineFrame] = []
    process = ComparisonProcess(Library(), inbox, sent.append)
    for command in (OpenComparison(1, OPENING, (OPENING, OPENING)), *commands):
        inbox.put(command)
        process.turn()
    return sent


def test_opening_is_told_as_it_goes_on() -> None:
    assert answers() == [Progress(1, 1.0), ComparisonOpened(1)]


def test_text_is_tokenised_and_a_passage_compared() -> None:
    *_, tokens, sign_of_life, compared = answers(
        Tokenize(2, TextPrompt((Segment("ab", control=False),))), Compare(3, PASSAGE, (0, 1))
    )
    assert isinstance(tokens, Tokens)
    assert sign_of_life == Progress(3, 0.5)
    assert compared == Compared(3, ((LIKENESS,), (LIKENESS,)))


def test_what_the_library_cannot_compute_is_refused_and_the_next_passage_is_not() -> None:
    twice = Passage((*PASSAGE.texts, *PASSAGE.texts))
    *_, refused, _, compared = answers(Compare(2, twice, (0,)), Compare(3, PASSAGE, (1,)))
    assert isinstance(refused, Refused)
    assert compared == Compared(3, ((LIKENESS,),))
