"""The prompt for what stands between two texts, for models that were trained to fill gaps."""

from __future__ import annotations

from edgekv.core.plan import ModelFacts
from edgekv.core.request import Prompt, Segment, TextPrompt
from edgekv.errors import InvalidValue, UnsupportedOption


def infill_prompt(facts: ModelFacts, before: Prompt, after: str) -> TextPrompt:
    """Raises `UnsupportedOption` for a model without marks for gaps, and `InvalidValue` for a
    `before` that is no text.

    Marks that the two texts contain stay text: editors send files, not prompts.
    """
    if facts.infill_marks is None:
        raise UnsupportedOption(
            "suffix", "this model cannot fill gaps, so leave it out or serve a model for code"
        )
    if not isinstance(before, TextPrompt):
        raise InvalidValue("suffix", "suffix: what stands before a gap must be a text, too.")
    start, gap, end = (Segment(mark, control=True) for mark in facts.infill_marks)
    text = "".join(segment.text for segment in before.segments)
    return TextPrompt(
        (start, Segment(text, control=False), gap, Segment(after, control=False), end)
    )
