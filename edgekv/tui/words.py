"""What the terminal says: figures and sentences, for screens and line mode alike."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from edgekv.budget.outcomes import kv_words
from edgekv.budget.sizes import counted
from edgekv.core.events import FinishReason
from edgekv.core.plan import MemoryPlan
from edgekv.errors import EdgeKVError
from edgekv.history.entries import Ending, Entry
from edgekv.service.attachments import Attachment
from edgekv.service.conversation import AnswerStats
from edgekv.service.messages import ToolCall
from edgekv.service.states import LoadStep, State

Level: TypeAlias = Literal["fine", "low", "out"]

LOW_FRACTION, OUT_FRACTION = 0.8, 0.95
"""How full a conversation is when the meter first warns, and when it does so in red."""

WAYS_ON = (
    "/summary goes on in a new conversation that begins with a summary, /drop leaves the oldest "
    "turns out, /ctx makes room for more, Ctrl+N begins a new conversation."
)


def load_words(step: LoadStep) -> str:
    match step.state:
        case State.STARTING:
            return "starting the engine"
        case State.PLANNING:
            return "planning memory"
        case State.LOADING:
            return f"loading the weights, {step.fraction:.0%}" if step.fraction else "loading"
        case State.RESTARTING:
            return "starting the engine again"
        case State.READY | State.FAILED | State.CLOSED:
            return step.state.value


@dataclass(frozen=True, slots=True)
class ContextReading:
    words: str
    level: Level
    warning: str
    """A sentence; nothing while all is fine."""


def read_context(num_held: int, context_length: int) -> ContextReading:
    """How full the conversation is, in words."""
    fraction = num_held / context_length
    level: Level = (
        "out" if fraction >= OUT_FRACTION else "low" if fraction >= LOW_FRACTION else "fine"
    )
    words = f"context {num_held:,} of {context_length:,} tokens"
    if level == "fine":
        return ContextReading(words, level, "")
    num_left = max(0, context_length - num_held)
    warning = f"This conversation may grow by {num_left:,} more tokens, then it is full."
    return ContextReading(f"{words} · {num_left:,} left", level, warning)


def stats_words(stats: AnswerStats) -> str:
    """An answer's figures, as far as they are known."""
    words = [f"{stats.num_generated:,} token{'' if stats.num_generated == 1 else 's'}"]
    if stats.tokens_per_second is not None:
        words.append(f"{stats.tokens_per_second:.1f} tok/s")
    if stats.first_token_seconds is not None:
        words.append(f"first token {stats.first_token_seconds:.2f} s")
    if stats.num_prompt:
        words.append(f"reused {stats.num_reused:,} of {stats.num_prompt:,}")
    return " · ".join(words)


def choice_words(plan: MemoryPlan) -> str:
    return f"{plan.choice.context_length:,} tokens · KV {kv_words(plan)}"


def model_words(name: str, plan: MemoryPlan | None) -> str:
    return f"The model is {name}" + (f", with {choice_words(plan)}." if plan else ".")


def ending_words(stats: AnswerStats, ending: Ending | None) -> str:
    if ending in {None, Ending.WHOLE}:
        return stats_words(stats)
    return f"{stats_words(stats)} · {ending}"


def entry_words(entry: Entry) -> str:
    """The figures of an answer that is over, and which of several it is."""
    if entry.stats is not None:
        figures = ending_words(entry.stats, entry.ending)
    else:
        figures = "" if entry.ending in {None, Ending.WHOLE} else str(entry.ending)
    place = f"◂ {entry.place_words} ▸" if entry.place_words else ""
    return " · ".join(words for words in (place, figures) if words)


def call_words(call: ToolCall) -> str:
    """A call of a tool, in Markdown."""
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return f"```json\n{call.name}({arguments})\n```"


def attachment_words(attachments: Sequence[Attachment]) -> str:
    names = ", ".join(f"{a.name} ({counted(a.num_lines, 'line')})" for a in attachments)
    return f"with {names} · /detach sends none"


def notice_words(stats: AnswerStats, error: EdgeKVError | None) -> str:
    """The sentence that must be said after an answer, if there is one."""
    if error is not None:
        return str(error)
    if stats.reason is FinishReason.LENGTH:
        return (
            f"The conversation has reached its context length of {stats.num_held:,} tokens; "
            "a larger --ctx holds more."
        )
    return ""
