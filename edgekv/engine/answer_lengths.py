"""How long an answer will probably get: what admission reserves, instead of the worst case."""

from __future__ import annotations

from collections import deque

FIRST_GUESS = 64
"""Tokens, before anything is known."""
NUM_REMEMBERED = 64


class AnswerLengths:
    """The lengths, in tokens, of the last answers that came to their own end."""

    def __init__(self) -> None:
        self._lengths: deque[int] = deque(maxlen=NUM_REMEMBERED)

    def learn(self, length: int) -> None:
        self._lengths.append(length)

    def remaining(self, num_generated: int) -> int:
        """How many tokens follow, on average, once there are so many.

        An answer that has outlived all others is expected to double.
        """
        excess = [length - num_generated for length in self._lengths if length > num_generated]
        if not excess:
            return max(FIRST_GUESS, num_generated)
        return -(-sum(excess) // len(excess))
