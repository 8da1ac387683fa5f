"""One question on its way to an answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from textual.worker import Worker as Task

from edgekv.service.conversation import AnswerStats
from edgekv.tui.answer import Answer
from edgekv.tui.question import Question

SUMMARISE = (
    "Summarise our conversation so far for yourself, so that we can go on from your summary alone: "
    "what I want, what we found out, what is open. Use at most 200 words."
)


@dataclass(eq=False)
class Turn:
    question: Question
    answer: Answer
    typed: str | None
    """What goes back into the message box if there is no answer; None: nothing."""
    said: list[str] = field(default_factory=list)
    thought: list[str] = field(default_factory=list)
    stats: AnswerStats = field(default_factory=AnswerStats)
    task: Task[None] | None = None
    is_summary: bool = False
    """Its answer begins a new conversation."""

    @property
    def has_begun(self) -> bool:
        return bool(self.said or self.thought) or self.stats.reason is not None
