"""What the log says when memory gets short, and when it is there again: one sentence a step."""

from __future__ import annotations

from edgekv.budget.pressure import Level, Room
from edgekv.budget.sizes import counted, format_size
from edgekv.core.memory_frames import Resized, Restrained
from edgekv.core.plan import Choice
from edgekv.core.restraint import Restraint


def level_sentence(
    before: Level, level: Level, room: Room, freed: Restrained, restraint: Restraint, slots: int
) -> str:
    if level < before:
        return f"Memory is {_NAMES[level]} again ({_left(room)}); {_allowed(restraint, slots)}."
    return f"Memory is {_NAMES[level]} ({_left(room)}); {_gone(freed)}{_only(restraint)}."


def smaller(before: Choice, resized: Resized, saved_bytes: int, room: Room) -> str:
    now = resized.choice
    if now.cells == before.cells:
        what = f"to compute {now.ubatch:,} of {before.ubatch:,} tokens at once"
    else:
        what = f"with {now.cells:,} of {before.cells:,} cells"
    return (
        f"Memory is critical ({_left(room)}); the pool was reopened {what}, which gives back "
        f"{format_size(saved_bytes)}, and {_carried(resized)}."
    )


def at_least(choice: Choice, room: Room) -> str:
    return (
        f"Memory is critical ({_left(room)}); the pool keeps its {choice.cells:,} cells, because "
        "options or answers under way need them. Close other programs."
    )


def ran_out(most_bytes: int) -> str:
    return (
        f"The engine ran out of memory, so it is started again with a plan of at most "
        f"{format_size(most_bytes)}; if all stays quiet it grows back, step by step."
    )


def larger(before: Choice, resized: Resized, whole: Choice) -> str:
    now = resized.choice
    if now.cells == before.cells:
        what = f"to compute {now.ubatch:,} tokens at once instead of {before.ubatch:,}"
    else:
        what = f"with {now.cells:,} cells instead of {before.cells:,} ({whole.cells:,} at first)"
    return f"Memory is there again; the pool was reopened {what}, and {_carried(resized)}."


_NAMES = {
    Level.CALM: "sufficient",
    Level.TIGHT: "tight",
    Level.SCARCE: "scarce",
    Level.CRITICAL: "critical",
}


def _left(room: Room) -> str:
    if room.spare_bytes < 0:
        left = f"{format_size(-room.spare_bytes)} of the plan cannot be filled"
    else:
        left = f"{format_size(room.spare_bytes)} left beside the plan"
    return f"{room.device}: {left}, {format_size(room.margin_bytes)} should be"


def _gone(freed: Restrained) -> str:
    if not freed.num_cells and not freed.num_bytes:
        return ""
    cells, copies = counted(freed.num_cells, "kept cell"), format_size(freed.num_bytes)
    return f"{cells} and {copies} of copies went to disk, and "


def _only(restraint: Restraint) -> str:
    if restraint.slots is None:
        return "nothing is kept until there is more"
    return f"no more than {counted(restraint.slots, 'request')} run at once until there is more"


def _allowed(restraint: Restraint, slots: int) -> str:
    if restraint.slots is not None:
        return (
            f"no more than {counted(restraint.slots, 'request')} run at once, and nothing is kept"
        )
    if not restraint.keeps:
        return f"all {counted(slots, 'slot')} may run, and nothing is kept"
    return "conversations are kept again"


def _carried(resized: Resized) -> str:
    if not resized.num_carried:
        return "no answer was under way"
    return f"{counted(resized.num_carried, 'answer')} under way went on"
