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
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle

from edgekv.quality.material import NUM_NEEDLES, Material, Needle, constitution

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
    material: Material = field(default_factory=constitution)

    @property
    def name(self) -> str:
        """Fit for a file name; no two trials share one."""
        return f"{self.material.name}-{self.length}-{self.seed}-{self.num_asked}"


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


def haystack(num_characters: int, seed: int, material: Material) -> Haystack:
    """A text of about so many characters, the same for the same seed."""
    sentences, pieces, length = cycle(material.sentences), list[str](), 0
    needles = tuple(_needles(seed, material))
    for needle in needles:
        sentence = material.form.sentence(needle)
        while length < needle.depth * num_characters - len(sentence):
            pieces.append(next(sentences))
            length += len(pieces[-1]) + 1
        pieces.append(sentence)
        length += len(pieces[-1]) + 1
    while length < num_characters:
        pieces.append(next(sentences))
        length += len(pieces[-1]) + 1
    return Haystack(" ".join(pieces), needles, _words(sentences, PROSE_WORDS))


def _needles(seed: int, material: Material) -> Iterator[Needle]:
    chance, places = random.Random(seed), random.Random(seed)
    things = chance.sample(material.things, NUM_NEEDLES)
    for number, adjective in enumerate(chance.sample(material.adjectives, NUM_NEEDLES)):
        depth = (number + 0.5 + material.spread * (places.random() - 0.5)) / NUM_NEEDLES
        yield Needle(f"{adjective} {things[number]}", str(chance.randrange(10_000, 100_000)), depth)


def _words(sentences: Iterator[str], count: int) -> str:
    words: list[str] = []
    while len(words) < count:
        words += next(sentences).split()
    return " " + " ".join(words[:count])
