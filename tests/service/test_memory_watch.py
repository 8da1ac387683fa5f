"""What the watch tells an engine, and the log, as memory comes and goes."""

from __future__ import annotations

import logging

import pytest

from edgekv.budget.pressure import SECONDS_TO_EASE, SECONDS_TO_GROW
from edgekv.budget.wish import Wish
from edgekv.core.restraint import Restraint
from tests.service.scene import Scene, replace_plan
from tests.unit.budget_models import GIB, MIB, graphics


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_less_and_less_memory_is_answered_step_by_step(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    before = scene.model.plan
    assert before is not None
    assert scene.leave(5.5) == "tight"
    assert scene.leave(3.5) == "scarce"
    assert scene.model.sizes == []
    assert scene.leave(-8) == "critical"
    assert scene.model.restraints == [
        Restraint(keeps=False),
        Restraint(keeps=False, slots=2),
        Restraint(keeps=False, slots=2),
    ]
    [smaller] = scene.model.sizes
    assert smaller.cells < before.choice.cells
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 4
    tight, scarce, critical, reopened = scene.watch.view().steps
    assert tight.startswith("Memory is tight (CPU: ")
    assert "500 kept cells and 3.0 MiB of copies went to disk, and nothing is kept" in tight
    assert "no more than 2 requests run at once until there is more." in scarce
    assert "of the plan cannot be filled" in critical
    assert f"with {smaller.cells:,} of {before.choice.cells:,} cells, which gives back" in reopened


def test_a_smaller_pool_leaves_the_margin_again_and_is_not_made_smaller_still(
    scene: Scene,
) -> None:
    scene.leave(-8)
    scene.look()
    assert scene.watch.view().rooms[0].spare_bytes >= scene.margin
    scene.look(30)
    assert len(scene.model.sizes) == 1


def test_memory_that_comes_back_brings_everything_back_in_its_time(scene: Scene) -> None:
    whole = scene.model.plan
    scene.leave(-8)
    scene.probe.others = 0
    assert scene.look(SECONDS_TO_EASE + 1) == "scarce"
    assert scene.look(2 * SECONDS_TO_EASE + 2) == "calm"
    assert scene.model.restraints[-1] == Restraint()
    assert len(scene.model.sizes) == 1
    scene.look(SECONDS_TO_GROW + 1)
    assert whole is not None
    assert scene.model.sizes[-1] == whole.choice
    assert f"reopened with {whole.choice.cells:,} cells" in scene.watch.view().steps[-1]
    scene.look(200)
    assert len(scene.model.sizes) == 2


def test_a_program_that_takes_and_gives_back_does_not_make_the_pool_follow(scene: Scene) -> None:
    scene.leave(-8)
    taken = scene.probe.others
    for _ in range(20):
        scene.probe.others = taken
        scene.look(4)
        scene.probe.others = 0
        scene.look(10)
    assert len(scene.model.sizes) == 1


def test_a_pool_that_others_memory_no_longer_fits_stays_small(scene: Scene) -> None:
    scene.leave(-8)
    scene.look(500)
    assert scene.watch.view().level == "calm"
    assert len(scene.model.sizes) == 1


def test_what_a_running_answer_was_promised_stays() -> None:
    scene = Scene(promised=8192)
    scene.leave(-100)
    [smaller] = scene.model.sizes
    assert (smaller.context_length, smaller.cells) == (8192, 8192)
    assert "1 answer under way went on" in scene.watch.view().steps[-1]
    scene.look(20)
    assert "Close other programs." in scene.watch.view().steps[-1]
    assert len(scene.model.sizes) == 1


def test_what_the_user_fixed_is_kept_and_that_is_said_once() -> None:
    scene = Scene(wish=Wish(context_length=4096, slots=2, cells=8192))
    assert scene.model.plan is not None
    whole = scene.model.plan.choice
    scene.leave(-8)
    scene.look(50)
    [fewer_at_once] = scene.model.sizes
    assert (fewer_at_once.context_length, fewer_at_once.slots, fewer_at_once.cells) == (
        4096,
        2,
        8192,
    )
    words = f"reopened to compute {fewer_at_once.ubatch} of {whole.ubatch} tokens at once"
    assert any(words in step for step in scene.watch.view().steps)
    assert sum("options or answers under way need them" in s for s in scene.watch.view().steps) == 1


def test_waiting_for_memory_is_answered_without_a_smaller_pool(scene: Scene) -> None:
    scene.probe.stall = 40.0
    assert scene.look() == "scarce"
    scene.look(20)
    assert scene.model.sizes == []
    scene.probe.stall = 0.0
    assert scene.look(2 * SECONDS_TO_EASE + 2) == "calm"


def test_a_full_graphics_device_makes_the_pool_smaller() -> None:
    scene = Scene(gpu=graphics(3 * GIB, total=4 * GIB))
    assert scene.model.allocation is not None
    on_gpu = sum(b.bytes for b in scene.model.allocation.buffers if b.device == "CUDA0")
    assert scene.model.gpu is not None
    # Another program took all that was left, and 200 MiB that the driver moved elsewhere.
    scene.model.gpu = graphics(10 * MIB, total=4 * GIB)
    assert on_gpu > GIB
    assert scene.look() == "critical"
    [smaller] = scene.model.sizes
    assert scene.watch.view().steps[-1].startswith("Memory is critical (CUDA0: ")
    assert smaller.gpu_layers == 17


def test_an_engine_that_was_started_anew_is_told_again(scene: Scene) -> None:
    scene.leave(3.5)
    scene.model.open_pid = 8
    scene.look()
    assert scene.model.restraints == [Restraint(keeps=False, slots=2)] * 2
    assert len(scene.watch.view().steps) == 1


def test_while_nothing_is_open_nothing_is_asked(scene: Scene) -> None:
    scene.model.open_pid = None
    scene.probe.others = 2 * GIB
    assert scene.look(5) == "calm"
    assert scene.model.restraints == []


def test_another_plan_is_another_start(scene: Scene) -> None:
    scene.leave(-8)
    [smaller] = scene.model.sizes
    assert scene.model.plan is not None
    scene.model.plan = replace_plan(scene.model.plan)
    before = len(scene.model.restraints)
    scene.look()
    assert len(scene.model.restraints) == before + 1
    assert scene.watch.view().cells_at_first == smaller.cells
