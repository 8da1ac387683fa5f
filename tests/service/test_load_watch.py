"""What is said of a load, by an engine whose every second is told."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from edgekv.core.frames import Snapshot
from edgekv.core.plan import MemoryPlan
from edgekv.service.conduct import Conduct
from edgekv.service.load_watch import LoadWatch
from edgekv.service.load_words import all_well, warning
from edgekv.traffic.load import Forecast, Level, Wall
from tests.unit.budget_models import plan


@dataclass
class Engine:
    snapshot: Snapshot = field(default_factory=Snapshot)
    plan: MemoryPlan | None = field(default_factory=plan)
    conduct: Conduct = field(default_factory=lambda: Conduct(max_waiting=256))


class Scene:
    """Three requests a second come and two end, until told otherwise; the rest waits."""

    def __init__(self) -> None:
        self.engine, self.now = Engine(), 0.0
        self.watch = LoadWatch(self.engine, lambda: self.now)

    def second(self, come: int = 3, end: int = 2) -> None:
        self.now += 1
        for _ in range(come):
            self.watch.come()
        for _ in range(end):
            self.watch.end()
        waiting = min(256, max(0, self.engine.snapshot.num_waiting + come - end))
        assert self.engine.plan is not None
        slots = self.engine.plan.choice.slots
        self.engine.snapshot = Snapshot(num_running=slots, num_waiting=waiting)
        self.watch.look()


def test_a_growing_queue_is_warned_of_once_with_its_figures(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    with caplog.at_level(logging.WARNING, "edgekv.load"):
        for _ in range(100):
            scene.second()
    (told,) = caplog.messages
    assert told.startswith("At this rate the queue is full in about 4 minutes: ")
    assert "of 256 wait, about 8 s each; 3 a second come and 2 a second end. " in told
    assert "The wall is compute: " in told
    assert "more memory buys nothing" in told


def test_a_full_queue_and_its_end_are_said_too(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    with caplog.at_level(logging.WARNING, "edgekv.load"):
        for _ in range(300):
            scene.second()
        for _ in range(400):
            scene.second(come=0)
    assert [message.split(":")[0] for message in caplog.messages[1:]] == [
        "The queue is full, and requests are turned away",
        "The queue is short again",
    ]


def test_nothing_is_learned_before_there_is_a_plan() -> None:
    scene = Scene()
    scene.engine.plan = None
    scene.watch.look()
    assert scene.watch.forecast == Forecast()


def test_the_expected_wait_is_that_of_the_queue_as_it_is() -> None:
    scene = Scene()
    scene.engine.snapshot = Snapshot(num_waiting=12)
    assert scene.engine.plan is not None
    # Nothing has ended yet: a second for each answer, as many at once as there are slots.
    assert scene.watch.expected_wait() == 12 / scene.engine.plan.choice.slots
    for _ in range(50):
        scene.second()
    scene.engine.snapshot = replace(scene.engine.snapshot, num_waiting=20)
    assert scene.watch.expected_wait() == pytest.approx(10)
    scene.engine.snapshot = replace(scene.engine.snapshot, num_waiting=0)
    assert scene.watch.expected_wait() == 1


SHORT_OF_CELLS = Forecast(
    Level.WAITING,
    Wall.MEMORY,
    come_per_second=0.05,
    end_per_second=0.04,
    num_waiting=3,
    wait_seconds=75,
)


def test_requests_that_wait_for_cells_are_told_what_makes_room() -> None:
    told = warning(SHORT_OF_CELLS, slots=4)
    assert told.startswith(
        "Requests wait about 75 s for their start: 3 wait, about 75 s each; 3 a minute come and "
        "2.4 a minute end. The wall is memory: "
    )
    assert "--kv-type q8_0" in told


def test_one_slot_is_one_slot() -> None:
    told = warning(replace(SHORT_OF_CELLS, wall=Wall.COMPUTE), slots=1)
    assert "The wall is compute: the slot is at work" in told


def test_an_empty_queue_is_said_to_be_empty() -> None:
    assert all_well(Forecast()) == "The queue is short again: 0 requests wait, 0 s at most."
