"""How an engine that ran out of memory, and was started again smaller, grows back."""

from __future__ import annotations

import pytest

from edgekv.budget.pressure import SECONDS_TO_GROW
from edgekv.budget.trust import SECONDS_OF_QUIET
from edgekv.budget.wish import Wish
from edgekv.errors import EngineDied
from tests.service.scene import FACTS, HOST, Scene, replace_plan
from tests.unit.budget_models import plan


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_an_engine_that_ran_out_grows_back_after_quiet_and_not_before(scene: Scene) -> None:
    assert scene.model.plan is not None
    whole = scene.model.plan
    small = scene.run_out()
    assert small.cells < whole.choice.cells
    assert scene.watch.view().cells_at_first == whole.choice.cells
    scene.look(SECONDS_OF_QUIET - 1)
    assert scene.model.sizes == []
    scene.look(SECONDS_TO_GROW + 1)
    assert scene.model.sizes == [whole.choice]
    ran_out, larger = scene.watch.view().steps
    assert ran_out.startswith("The engine ran out of memory, so it is started again with a plan of")
    assert f"reopened with {whole.choice.cells:,} cells instead of {small.cells:,}" in larger


def test_a_plan_that_ran_out_twice_grows_back_in_two_steps(scene: Scene) -> None:
    assert scene.model.plan is not None
    whole = scene.model.plan.choice
    sizes = [scene.run_out().cells, scene.run_out().cells]
    assert whole.cells > sizes[0] > sizes[1]
    scene.look(SECONDS_OF_QUIET + SECONDS_TO_GROW)
    [larger] = scene.model.sizes
    assert sizes[1] < larger.cells < whole.cells
    scene.look(SECONDS_OF_QUIET + SECONDS_TO_GROW)
    assert scene.model.sizes == [larger, whole]


def test_a_grown_plan_that_runs_out_again_is_tried_half_as_often(scene: Scene) -> None:
    for times in (1, 2):
        scene.run_out()
        scene.model.sizes.clear()
        scene.look(times * SECONDS_OF_QUIET - 1)
        assert scene.model.sizes == []
        scene.look(SECONDS_TO_GROW + 1)
        assert len(scene.model.sizes) == 1


def test_an_engine_that_dies_while_it_grows_is_not_made_smaller_than_it_was(scene: Scene) -> None:
    small = scene.run_out()
    scene.model.is_to_die = True
    with pytest.raises(EngineDied):
        scene.look(SECONDS_OF_QUIET + SECONDS_TO_GROW)
    scene.model.is_to_die = False
    assert scene.run_out() == small
    scene.look(2 * SECONDS_OF_QUIET - 1)
    assert len(scene.model.sizes) == 1


def test_pressure_after_a_shortage_begins_the_quiet_anew(scene: Scene) -> None:
    scene.run_out()
    scene.look(SECONDS_OF_QUIET - 30)
    scene.probe.stall = 40.0
    scene.look(2)
    scene.probe.stall = 0.0
    scene.look(SECONDS_OF_QUIET)
    assert scene.model.sizes == []


def test_a_shortage_of_a_pool_that_pressure_made_smaller_grows_back_to_the_first(
    scene: Scene,
) -> None:
    assert scene.model.plan is not None
    whole = scene.model.plan.choice
    scene.leave(-8)
    scene.run_out()
    scene.probe.others = 0
    scene.look(3 * SECONDS_OF_QUIET + 5 * SECONDS_TO_GROW)
    assert scene.model.sizes[-1] == whole


def test_a_plan_of_another_kind_after_a_shortage_is_another_start(scene: Scene) -> None:
    scene.watch.ran_out()
    scene.model.open_anew(plan(Wish(kv_type_k="q8_0", kv_type_v="q8_0"), FACTS, HOST))
    scene.watch.restarted()
    scene.look(2 * SECONDS_OF_QUIET)
    assert scene.model.plan is not None
    assert scene.watch.view().cells_at_first == scene.model.plan.choice.cells
    assert scene.model.sizes == []


def test_a_restart_for_another_reason_keeps_what_the_pool_grows_back_to(scene: Scene) -> None:
    assert scene.model.plan is not None
    whole = scene.model.plan.choice
    scene.leave(-8)
    scene.model.plan = replace_plan(scene.model.plan)
    scene.watch.restarted()
    scene.look()
    assert scene.watch.view().cells_at_first == whole.cells
