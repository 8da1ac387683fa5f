"""Trials as tokens, and what was measured as scores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

from edgekv.core.comparison import Likeness, Passage, Scored
from edgekv.core.request import Token
from edgekv.quality.material import NUM_NEEDLES
from edgekv.quality.measures import Measured, NeedleScore, needle_score, prose_score
from edgekv.quality.trials import Haystack, Trial, haystack

PROSE_TOKENS = 256
"""How far the prose is scored after the long text."""
MOST_TRIES = 5

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
            yield needle_score(length, depth, likeness, as_json=number >= self.trial.num_asked)


async def ask(trial: Trial, tokenise: Tokenise) -> Asked:
    """The passage of a trial, in the tokens of one model."""
    hay = await _haystack(trial, tokenise)
    stride = NUM_NEEDLES // trial.num_asked
    first, *_ = hay.needles
    form = trial.material.form
    words = [(needle.depth, *form.question(needle)) for needle in hay.needles[::stride]]
    calls = [(n.depth, *form.tool_call(first, n)) for n in hay.needles[stride // 2 :: stride]]
    texts = [await _scored(hay, asked, answer, tokenise) for _, asked, answer in words + calls]
    goes_on = await _scored(hay, "", hay.goes_on, tokenise)
    texts.append(Scored(goes_on.tokens[: goes_on.scored_from + PROSE_TOKENS], goes_on.scored_from))
    return Asked(trial, Passage(tuple(texts)), tuple(depth for depth, *_ in words + calls))


async def _haystack(trial: Trial, tokenise: Tokenise) -> Haystack:
    """A text of at most the trial's tokens, if all its needles leave it so short."""
    sample = " ".join(trial.material.sentences)
    characters = trial.length * len(sample) / len(await tokenise(sample))
    for _ in range(MOST_TRIES):
        hay = haystack(round(characters), trial.seed, trial.material)
        num_tokens = len(await tokenise(hay.text))
        if num_tokens <= trial.length:
            break
        # Needles take more tokens a character than prose, the more of the text they are.
        characters *= 0.97 * trial.length / num_tokens
    return hay


async def _scored(hay: Haystack, asked: str, answer: str, tokenise: Tokenise) -> Scored:
    before = await tokenise(hay.text + asked)
    whole = await tokenise(hay.text + asked + answer)
    # A token may reach over the border; then it belongs to the answer.
    same = takewhile(lambda pair: pair[0] == pair[1], zip(before, whole, strict=False))
    return Scored(whole, sum(1 for _ in same))
