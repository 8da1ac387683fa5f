"""Text to measure with: the same for everybody, from a seed."""

from __future__ import annotations

import random

COMMON = """
time person year way day thing man world life hand part child eye woman place work week
case point company number group problem fact good new first last long great little own
other old right big high different small large next early young important few public bad
same able and but with from into over after before under again further then once here
"""


def words(count: int, seed: int) -> str:
    """`count` words in sentences of twelve."""
    vocabulary = COMMON.split()
    draw = random.Random(seed)
    chosen = [draw.choice(vocabulary) for _ in range(count)]
    sentences = [" ".join(chosen[i : i + 12]) for i in range(0, count, 12)]
    return ". ".join(sentences) + "."
