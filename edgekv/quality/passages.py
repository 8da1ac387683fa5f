"""Trials as tokens, and what was measured as scores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

from edgekv.core.comparison import Likeness, Passage, Scored
from edgekv.core.request import Token
from edgekv.quality.measures import Measured, NeedleScore, needle_score, prose_score
from edgekv.quality.trials import Haystack, Trial, haystack, prose, question, tool_call

NUM_ASKED = 8
"""Needles asked for in words, and as many others as tool calls."""

Tokenise: TypeAlias = Callable[[str], Awaitable[tuple[Token, ...]]]
"""A whole prompt of plain text, with the model's own start token where it wants one."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A trial ready for a model."""

    trial: Trial
    passage: Passage
    """First the needles in words, then those as tool calls, then the prose."""
    depths: tuple[float, ...]

    def measured(self, likenesses: tuple[Likeness, ...]) -> Measured:
        *needles, prose_likeness = likenesses
        length = self.passage.shared_length
        scores = tuple(self._scores(length, needles))
        return Measured(scores, (prose_score(length, prose_likeness),))

    def _scores(self, length: int, likenesses: list[Likeness]) -> Iterator[NeedleScore]:
        for number, (depth, likeness) in enumerate(zip(self.depths, likenesses, strict=True)):
            yield needle_score(length, depth, likeness, as_json=number >= NUM_ASKED)


async def ask(trial: Trial, tokenise: Tokenise) -> Asked:
    """The passage of a trial, in the tokens of one model."""
    hay = haystack(round(trial.length * await _characters_a_token(tokenise)), trial.seed)
    words = [(needle.depth, *question(needle)) for needle in hay.needles[::2]]
    calls = [(needle.depth, *tool_call(hay.needles[0], needle)) for needle in hay.needles[1::2]]
    texts = [await _scored(hay, asked, answer, tokenise) for _, asked, answer in words + calls]
    texts.append(await _scored(hay, "", hay.goes_on, tokenise))
    return Asked(trial, Passage(tuple(texts)), tuple(depth for depth, *_ in words + calls))


async def _characters_a_token(tokenise: Tokenise) -> float:
    sample = " ".join(prose())
    return len(sample) / len(await tokenise(sample))


async def _scored(hay: Haystack, asked: str, answer: str, tokenise: Tokenise) -> Scored:
    before = await tokenise(hay.text + asked)
    whole = await tokenise(hay.text + asked + answer)
    # A token may reach over the border; then it belongs to the answer.
    same = takewhile(lambda pair: pair[0] == pair[1], zip(before, whole, strict=False))
    return Scored(whole, sum(1 for _ in same))
