"""docs/operating.md shows the log lines that a user sees, and the figures that decide."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from edgekv.budget.pressure import BOUNDS, SECONDS_TO_EASE, STALLS, Level, Room, restraint
from edgekv.budget.trust import SECONDS_OF_QUIET, SHARE_AFTER_SHORTAGE
from edgekv.core.memory_frames import Resized, Restrained
from edgekv.core.plan import Allocation
from edgekv.service import memory_words
from tests.conftest import REPOSITORY
from tests.engine.test_process import CHOICE

MIB = 1024**2
PAGE = (REPOSITORY / "docs/operating.md").read_text()
SMALL, WHOLE = replace(CHOICE, cells=8192), replace(CHOICE, cells=32768)
NOTHING = Restrained(1, 0, 0)


def room(spare: int) -> Room:
    return Room("CPU", spare * MIB, 0, 512 * MIB)


def level(before: Level, now: Level, spare: int, freed: Restrained = NOTHING) -> str:
    return memory_words.level_sentence(before, now, room(spare), freed, restraint(now, 4), 4)


@pytest.mark.parametrize(
    "sentence",
    [
        level(Level.CALM, Level.TIGHT, 310, Restrained(1, 1200, 36 * MIB)),
        level(Level.TIGHT, Level.SCARCE, 200),
        level(Level.SCARCE, Level.CRITICAL, -50),
        memory_words.smaller(WHOLE, Resized(1, SMALL, Allocation(()), 3), 565 * MIB, room(-50)),
        memory_words.at_least(SMALL, room(-50)),
        level(Level.SCARCE, Level.TIGHT, 350),
        level(Level.TIGHT, Level.CALM, 500),
        memory_words.larger(SMALL, Resized(1, WHOLE, Allocation(()), 0), WHOLE),
        memory_words.ran_out(820 * MIB),
    ],
)
def test_every_sentence_stands_there_as_it_is_logged(sentence: str) -> None:
    assert f"    {sentence}\n" in PAGE


def test_the_table_has_the_figures_of_the_program() -> None:
    rows = {
        cells[1].strip(): (cells[2].strip(), cells[3].strip())
        for line in PAGE.splitlines()
        if len(cells := line.split("|")) == 6
    }
    parts = {"3/4 of the margin": 3 / 4, "1/2": 1 / 2, "1/4": 1 / 4}
    for one, bounds in BOUNDS.items():
        part, stall = rows[one.name.lower()]
        assert parts[part] == bounds.enter
        assert bounds.leave == bounds.enter + 1 / 8
        assert stall == (f"{STALLS[one].enter:g} %" if one in STALLS else "never")
    assert f"over {SECONDS_TO_EASE:g} seconds" in PAGE
    assert f"After {SECONDS_OF_QUIET:g} seconds of calm" in PAGE
    assert (SHARE_AFTER_SHORTAGE, "at most 4/5 of what ran out" in PAGE) == (4 / 5, True)
