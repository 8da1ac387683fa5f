"""What `edgekv advise` says, of loads whose course is known."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from msgspec import structs

from edgekv.cli.advice_words import Found, report
from edgekv.cli.advise import trials_of
from edgekv.core.plan import MemoryPlan
from edgekv.core.request import Priority
from edgekv.traffic.advice import FASTEST, Trials, advise
from edgekv.traffic.load import Wall
from edgekv.traffic.room import Room
from edgekv.traffic.step_time import StepTime
from edgekv.traffic.trace import Row, Trace, Traced
from tests.unit.budget_models import plan

ROOM = Room(slots=2, kept=2, cells=4096, context_length=512, batch=64, max_gap_seconds=0)
STEPS = StepTime(0.1, 0.001, 0.0)


def load(seconds_between: float, blocks: bool = False) -> Trace:
    ids = ((1, 2), (1, 3)) if blocks else ((), ())
    return Trace(
        tuple(
            Traced(n, n * seconds_between, Row(0, 100, 20, hash_ids=ids[n % 2], block_tokens=64))
            for n in range(30)
        )
    )


def lines(
    trace: Trace, times: float, beyond: Wall | None = None, num_left_out: int = 0
) -> list[str]:
    advice = advise(trace, ROOM, STEPS, Trials(("--disk-cache 8GiB", 512), 8192))
    return list(report(trace, Found(advice, times, beyond), num_left_out, goal=5))


def test_a_load_that_waits_is_told_that_it_waits_for_the_processor() -> None:
    told = lines(load(0), times=0.25)
    assert told[0] == "30 requests in 0 s."
    assert [line.split()[-3:] for line in told[2:4]] == [["100"] * 3, ["20"] * 3]
    assert "does not say which prompts begin alike" in told[4]
    assert "Speed is the wall, not memory: requests wait for the processor." in told
    assert any("30 requests ran or waited, 2 in one step" in line for line in told)
    assert "  - --kv-type q8_0: buys nothing." in told
    # Answers and waits go on side by side, twice as many of them.
    assert any(re.fullmatch(r"  - --slots 4: 4\d% sooner\.", line) for line in told)
    assert any(re.fullmatch(r"  - --slots 1: [12]\.\d times as long\.", line) for line in told)
    assert "More room for keys and values buys nothing here." in told
    assert not any("Shared prefixes, as always:" in line for line in told)
    assert told[-1] == (
        "This load is too much: it would have to come 4 times as slowly to be served with "
        "95 in 100 waiting at most 5 s for a first token."
    )


def test_a_quiet_load_is_told_how_far_it_may_grow_and_what_is_hit_then() -> None:
    told = lines(load(60, blocks=True), times=3.0, beyond=Wall.COMPUTE, num_left_out=2)
    assert "2 requests left out, too long for one conversation." in told
    assert "Neither wall is hit: requests hardly wait for each other." in told
    assert any(
        "Shared prefixes, as always: " in line and "% need no computing" in line for line in told
    )
    assert told[-1] == (
        "3 times this load can be served with 95 in 100 waiting at most 5 s for a first token. "
        "Beyond that, speed is the wall that is hit first."
    )


@pytest.mark.parametrize(
    ("times", "beginning"),
    [(0.0, "However slowly these requests come"), (FASTEST, "64 times this load and more")],
)
def test_loads_far_beyond_either_way_are_told_so(times: float, beginning: str) -> None:
    assert lines(load(60), times)[-1].startswith(beginning)


def test_what_was_reused_when_it_was_recorded_is_said_beside_what_is_foreseen() -> None:
    rows = [Row(0, 100, 20, reused=reused) for reused in (None, 0, 60)]
    told = lines(Trace(tuple(Traced(n, 9.0 * n, row) for n, row in enumerate(rows))), times=1.0)
    assert "When it was recorded, 30.0% of these prompts' tokens needed no computing." in told
    assert not any(line.startswith("When it was recorded") for line in lines(load(9), times=1.0))


def test_those_that_give_up_are_counted() -> None:
    waits = load(0)
    gone = replace(
        waits.requests[-1],
        row=Row(0, 100, 20, outcome="cancelled", priority=Priority.BATCH, total_ms=200),
    )
    told = lines(Trace((*waits.requests[:-1], gone)), times=1.0)
    assert "1 request would be given up before the answer is whole." in told


def test_only_smaller_keys_and_values_are_tried() -> None:
    by_type = plan().model.kv_bytes_per_cell
    wide, narrow = (planned_with(kv_type) for kv_type in ("f16", "q8_0"))
    assert trials_of(wide).q8_0_cells == wide.choice.cells * by_type["f16"] // by_type["q8_0"]
    assert trials_of(narrow).q8_0_cells is None
    assert trials_of(narrow).more_copies == ("--disk-cache 8GiB", 6 * 1024**3 // by_type["q8_0"])


def planned_with(kv_type: str) -> MemoryPlan:
    made = plan()
    choice = structs.replace(made.choice, kv_type_k=kv_type, kv_type_v=kv_type)
    return structs.replace(made, choice=choice)
