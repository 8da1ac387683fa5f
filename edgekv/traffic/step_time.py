"""How long a step takes, from a few measurements: the clock of a simulation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds. A straight line, which is what processors without much parallelism do."""

    step: float
    """For a step at all: every weight is read once."""
    prompt_token: float
    answer: float
    """For each answer that goes on in the step."""

    def seconds(self, num_prompt: int, num_answering: int) -> float:
        return self.step + self.prompt_token * num_prompt + self.answer * num_answering


def fitted(
    reading: float, writing_alone: float, writing_together: float, num_together: int
) -> StepTime:
    """From speeds in tokens a second: of prompts, of one answer, and of several in all.

    Raises `ValueError` for speeds that are not positive, and for fewer than two together.
    """
    if min(reading, writing_alone, writing_together) <= 0 or num_together < 2:
        raise ValueError("speeds are positive, and two at least write together")
    alone, together = 1 / writing_alone, num_together / writing_together
    answer = max(0.0, (together - alone) / (num_together - 1))
    return StepTime(max(0.0, alone - answer), 1 / reading, answer)
