"""How many prompt tokens a step may hold while answers are under way."""

from __future__ import annotations

FEWEST_TOKENS = 16
"""A prompt goes on at least by so many, however slow the machine."""
FIRST_TOKENS = 64
"""Before a step with a prompt in it was seen."""
FORGETTING = 0.2
"""The part of an old estimate that a quicker step replaces. A slower one replaces all of it, for
a gap that was too long cannot be mended afterwards.
"""


class Pace:
    """Learns from the time of steps. Knows no clock: `learn` is told."""

    def __init__(self, max_gap_seconds: float) -> None:
        """With 0 a step holds what the batch holds."""
        self._max_gap_seconds = max_gap_seconds
        self._answers_seconds = 0.0
        """Of a step without prompts."""
        self._token_seconds: float | None = None
        """What a prompt token adds."""

    def limit(self, batch_tokens: int) -> int:
        """Prompt tokens for a step that has answers under way and room for `batch_tokens`."""
        if not self._max_gap_seconds:
            return batch_tokens
        if self._token_seconds is None:
            return min(FIRST_TOKENS, batch_tokens)
        left = max(0.0, self._max_gap_seconds - self._answers_seconds)
        return min(max(FEWEST_TOKENS, int(left / self._token_seconds)), batch_tokens)

    def learn(self, num_prompt: int, num_answering: int, seconds: float) -> None:
        """A step with so many prompt tokens and answers took so long."""
        if not num_prompt:
            self._answers_seconds = _towards(self._answers_seconds, seconds)
            return
        base = self._answers_seconds if num_answering else 0.0
        # Never 0, which would allow any number: at least a nanosecond a token.
        spent = max(1e-9, (seconds - base) / num_prompt)
        self._token_seconds = _towards(self._token_seconds or spent, spent)


def _towards(old: float, new: float) -> float:
    return new if new > old else old + FORGETTING * (new - old)
