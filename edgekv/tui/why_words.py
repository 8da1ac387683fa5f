"""Why a prompt was computed, in sentences."""

from __future__ import annotations

from edgekv.core.inspection import Difference, PromptStart


def why_words(start: PromptStart | None) -> str:
    """What `PromptStart` tells, for `/why`."""
    if start is None:
        return "Nothing was asked yet, or the engine does not remember it any more."
    num_computed = start.num_prompt - start.num_reused
    words = [f"{start.num_reused:,} of {start.num_prompt:,} prompt tokens were reused"]
    if start.num_restored:
        words.append(f", {start.num_restored:,} of them from the store")
    words.append(f"; {num_computed:,} were computed.")
    return "".join(words) + " " + _reason(start)


def _reason(start: PromptStart) -> str:
    miss = start.miss
    if miss is None:
        return "Nothing was computed twice: all that was there before was used."
    if miss.lost is not None:
        return f"{miss.lost.num_tokens:,} of them had cells once. {miss.lost.how}"
    if miss.difference is not None:
        return _difference(miss.difference)
    return "Nothing that begins like it was there."


def _difference(difference: Difference) -> str:
    return (
        f"From token {difference.position:,} on it differs from what was there: "
        f"now “{difference.wanted_text.strip()}”, before “{difference.found_text.strip()}”."
    )
