"""What a model is asked in order to see whether a KV type does it harm.

One trial is a long text in which facts are hidden, and questions after it:

    prose … The pass code of the red lantern is 48213. … prose … ┬─ Question 1, its answer
                                                                 ├─ …
                                                                 ├─ the same as JSON
                                                                 └─ the prose goes on

The long text is computed once a trial. Answers are given, not generated, and it is measured how
likely they are: so models that cannot chat give a signal too, and every run asks the same.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import cycle

ADJECTIVES = (
    "red", "old", "broken", "silver", "quiet", "narrow", "heavy", "striped",
    "wooden", "frozen", "hollow", "distant", "painted", "golden", "crooked", "round",
)  # fmt: skip
THINGS = (
    "lantern", "bridge", "garden", "tower", "ship", "clock", "river", "castle",
    "mirror", "wagon", "island", "piano", "barrel", "candle", "window", "anchor",
)  # fmt: skip

NUM_NEEDLES = len(THINGS)
"""Facts in one text; all have the same form, so each distracts from the others."""
PROSE_WORDS = 300
"""How far the prose goes on after the long text, at least."""

FULL_PARTS = (8, 4, 2, 1)
"""A full gate asks at these parts of the longest length."""
LEAST_LENGTH = 512


@dataclass(frozen=True, slots=True)
class Trial:
    """`length` is tokens, about; `seed` decides which facts are hidden."""

    length: int
    seed: int
    num_asked: int = 8
    """Needles asked for in words, and as many others as tool calls; a divisor of all there are."""

    @property
    def name(self) -> str:
        """Fit for a file name; no two trials share one."""
        return f"{self.length}-{self.seed}-{self.num_asked}"


@dataclass(frozen=True, slots=True)
class Needle:
    item: str
    code: str
    depth: float
    """Where in the text it is: 0 at its beginning, 1 at its end."""

    @property
    def sentence(self) -> str:
        return f"The pass code of the {self.item} is {self.code}."


@dataclass(frozen=True, slots=True)
class Haystack:
    text: str
    needles: tuple[Needle, ...]
    goes_on: str
    """The prose after the text."""


def trials(longest: int, *, quick: bool) -> tuple[Trial, ...]:
    """Short ones first, so that what is plainly bad is soon seen. `longest` is tokens of a text."""
    if quick:
        return (Trial(longest, seed=1, num_asked=4),)
    lengths = sorted({max(LEAST_LENGTH, longest // part) for part in FULL_PARTS})
    return tuple(Trial(length, seed) for seed, length in enumerate(lengths, start=1))


def prose() -> list[str]:
    """Sentences of the Constitution of the United States, which is in the public domain."""
    text = (files("edgekv.quality") / "prose.txt").read_text(encoding="utf-8")
    return re.split(r"(?<=[.;:]) ", " ".join(text.split()))


def haystack(num_characters: int, seed: int) -> Haystack:
    """A text of about so many characters, the same for the same seed."""
    chance = random.Random(seed)
    things = chance.sample(THINGS, NUM_NEEDLES)
    sentences, pieces, length = cycle(prose()), list[str](), 0
    needles: list[Needle] = []
    for number, adjective in enumerate(chance.sample(ADJECTIVES, NUM_NEEDLES)):
        depth, code = (number + 0.5) / NUM_NEEDLES, chance.randrange(10_000, 100_000)
        needles.append(Needle(f"{adjective} {things[number]}", str(code), depth))
        while length < depth * num_characters - len(needles[-1].sentence):
            pieces.append(next(sentences))
            length += len(pieces[-1]) + 1
        pieces.append(needles[-1].sentence)
        length += len(pieces[-1]) + 1
    while length < num_characters:
        pieces.append(next(sentences))
        length += len(pieces[-1]) + 1
    return Haystack(" ".join(pieces), tuple(needles), _words(sentences, PROSE_WORDS))


def question(needle: Needle) -> tuple[str, str]:
    """What follows the text, and the answer that is right."""
    asked = f"\n\nQuestion: What is the pass code of the {needle.item}?\nAnswer: The pass code"
    return f"{asked} of the {needle.item} is", f" {needle.code}."


def tool_call(shown: Needle, needle: Needle) -> tuple[str, str]:
    """The same as a tool call whose form `shown` has. All but the value is given, for where a
    grammar holds the answer to a form, that is what the model still says.
    """
    asked = f"\n\nTool call for the {shown.item}: {_call(shown)} {shown.code}}}}}\n"
    return f"{asked}Tool call for the {needle.item}: {_call(needle)}", f" {needle.code}}}}}"


def _call(needle: Needle) -> str:
    return f'{{"name": "open", "arguments": {{"item": "{needle.item}", "code":'


def _words(sentences: Iterator[str], count: int) -> str:
    words: list[str] = []
    while len(words) < count:
        words += next(sentences).split()
    return " " + " ".join(words[:count])
