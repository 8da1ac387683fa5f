"""A verdict on a model in a row of words."""

from __future__ import annotations

from collections.abc import Sequence

from edgekv.budget.sizes import format_size
from edgekv.models.transfer import Progress
from edgekv.models.verdicts import Verdict

COLUMNS = ("", "model", "size", "context", "slots", "tok/s", "quant", "good at")
HERE, FITS, TOO_LARGE, UNKNOWN = "●", "○", "✕", "?"
"""On this disk; can be had and fits; needs too much memory; not known before it is here."""


def mark(verdict: Verdict) -> str:
    if verdict.outcome.needed_bytes is not None:
        return TOO_LARGE
    if verdict.local is not None:
        return HERE
    return FITS if verdict.fits else UNKNOWN


def row(verdict: Verdict) -> tuple[str, ...]:
    """One text for each of `COLUMNS`."""
    plan, speed = verdict.outcome.plan, verdict.most_tokens_per_second
    return (
        mark(verdict),
        verdict.name,
        format_size(verdict.num_bytes) if verdict.num_bytes else "?",
        f"{plan.choice.context_length:,}" if plan else "-",
        f"{plan.choice.slots}" if plan else "-",
        f"<= {speed:.0f}" if speed and speed >= 10 else f"<= {speed:.1f}" if speed else "-",
        verdict.quantisation or "?",
        verdict.model.about if verdict.model else "",
    )


def count_words(verdicts: Sequence[Verdict]) -> str:
    num_fitting = sum(verdict.fits for verdict in verdicts)
    num_here = sum(verdict.local is not None for verdict in verdicts)
    return f"{len(verdicts)} known · {num_fitting} fit · {num_here} on this disk"


def detail_words(verdict: Verdict) -> str:
    """What the row has no room for: what is wrong with it, what it would take, where it is."""
    words = [verdict.model.title if verdict.model else verdict.name]
    if verdict.outcome.problem is not None:
        words.append(verdict.outcome.problem)
    if plan := verdict.outcome.plan:
        words.append(f"would take {format_size(plan.total_bytes)}")
    if verdict.model is not None:
        words += [verdict.model.about, verdict.model.licence or "licence not known"]
    if verdict.local is not None:
        words.append(f"{verdict.local.path} ({verdict.local.origin})")
    return " · ".join(words)


def progress_words(name: str, progress: Progress) -> str:
    share = progress.done_bytes / max(1, progress.total_bytes)
    done, total = format_size(progress.done_bytes), format_size(progress.total_bytes)
    doing = "checking" if progress.is_checking else "getting"
    return f"{doing} {name}: {share:.0%}, {done} of {total}"
