"""What the terminal says: figures and sentences, for screens and line mode alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from edgekv.core.events import FinishReason
from edgekv.core.plan import MemoryPlan
from edgekv.errors import EdgeKVError
from edgekv.service.conversation import AnswerStats
from edgekv.service.worker import LoadStep, State

Level: TypeAlias = Literal["fine", "low", "out"]

LOW_FRACTION, OUT_FRACTION = 0.8, 0.95
"""How full a conversation is when the meter first warns, and when it does so in red."""


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


def read_context(num_held: int, context_length: int) -> ContextReading:
    """How full the conversation is, in words."""
    fraction = num_held / context_length
    level: Level = (
        "out" if fraction >= OUT_FRACTION else "low" if fraction >= LOW_FRACTION else "fine"
    )
    words = f"context {num_held:,} of {context_length:,} tokens"
    if level != "fine":
        words += f" · {max(0, context_length - num_held):,} left"
    return ContextReading(words, level)


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
    choice = plan.choice
    key_type, value_type = choice.kv_type_k, choice.kv_type_v
    kv_type = key_type if key_type == value_type else f"{key_type}/{value_type}"
    return f"{choice.context_length:,} tokens · KV {kv_type}"


def ending_words(stats: AnswerStats, error: EdgeKVError | None) -> str:
    if error is not None:
        return f"{stats_words(stats)} · broke off"
    if stats.reason in {None, FinishReason.CANCELLED}:
        return f"{stats_words(stats)} · stopped"
    return stats_words(stats)


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
