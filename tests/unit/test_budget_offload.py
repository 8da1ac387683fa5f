"""Layers and the graphics memory they go to."""

from __future__ import annotations

from edgekv.budget.wish import Wish
from edgekv.core.plan import DeviceInfo
from tests.unit.budget_models import EXPERT_PART, GIB, MIB, graphics, machine, model, plan


class TestGraphics:
    def test_everything_moves_to_a_gpu_that_holds_it(self) -> None:
        made = plan(gpu=graphics(16 * GIB))
        assert made.choice.gpu_layers == 17
        assert made.choice.slots == 8
        gpu, host = made.devices[1], made.devices[0]
        assert (gpu.id, host.id) == ("CUDA0", "CPU")
        assert made.budget_bytes == gpu.budget_bytes + host.budget_bytes

    def test_a_smaller_gpu_takes_whole_layers_and_is_not_overfilled(self) -> None:
        facts = model(weight_bytes=4 * GIB)
        made = plan(facts=facts, gpu=graphics(3 * GIB))
        assert 0 < made.choice.gpu_layers < 17
        used = sum(line.bytes for line in made.lines if line.device == "CUDA0")
        assert used <= made.devices[1].budget_bytes

    def test_experts_stay_on_the_host_before_whole_layers_do(self) -> None:
        facts = model(weight_bytes=8 * GIB, expert_count=64)
        made = plan(facts=facts, gpu=graphics(4 * GIB))
        choice = made.choice
        assert choice.gpu_layers == 17
        assert 0 < choice.host_experts < 16
        used = sum(line.bytes for line in made.lines if line.device == "CUDA0")
        # With the experts of one more layer it would be too much.
        one_more = int(8 * GIB * EXPERT_PART / 17)
        assert used <= made.devices[1].budget_bytes < used + one_more

    def test_experts_go_along_where_there_is_room(self) -> None:
        facts = model(weight_bytes=8 * GIB, expert_count=64)
        made = plan(facts=facts, gpu=graphics(16 * GIB))
        assert (made.choice.gpu_layers, made.choice.host_experts) == (17, 0)

    def test_where_even_the_rest_does_not_fit_whole_layers_stay_as_in_any_model(self) -> None:
        facts = model(weight_bytes=16 * GIB, expert_count=64)
        made = plan(facts=facts, gpu=graphics(GIB))
        assert made.choice.gpu_layers < 17
        assert made.choice.host_experts == 0

    def test_a_nearly_full_gpu_is_left_alone(self) -> None:
        made = plan(gpu=graphics(300 * MIB, total=8 * GIB))
        assert made.choice.gpu_layers == 0
        assert not any(line.device == "CUDA0" for line in made.lines)

    def test_a_gpu_that_shares_the_hosts_memory_is_counted_once(self) -> None:
        made = plan(host=machine(8 * GIB), gpu=graphics(8 * GIB, unified=True))
        assert made.choice.gpu_layers == 17
        assert made.budget_bytes == 8 * GIB - GIB // 2
        assert sum(device.budget_bytes for device in made.devices) == made.budget_bytes
        assert made.total_bytes <= made.budget_bytes
        assert all(device.unified for device in made.devices)

    def test_apples_gpu_takes_no_more_of_the_hosts_memory_than_its_driver_holds(self) -> None:
        facts = model(weight_bytes=4 * GIB)
        mac = DeviceInfo("Metal", "metal", "Apple M4", 3 * GIB, 3 * GIB, unified=True)
        made = plan(facts=facts, host=machine(16 * GIB), gpu=mac)
        assert 0 < made.choice.gpu_layers < 17
        used = sum(line.bytes for line in made.lines if line.device == "Metal")
        assert GIB < used <= 3 * GIB
        assert made.budget_bytes == 15 * GIB

    def test_a_wish_for_layers_is_kept(self) -> None:
        assert plan(Wish(gpu_layers=5), gpu=graphics(16 * GIB)).choice.gpu_layers == 5

    def test_a_wish_for_no_layers_is_kept(self) -> None:
        assert plan(Wish(gpu_layers=0), gpu=graphics(16 * GIB)).choice.gpu_layers == 0

    def test_an_unreadable_gpu_is_shown_without_a_budget(self) -> None:
        unknown = DeviceInfo("CUDA0", "cuda", "GPU", 0, None)
        made = plan(gpu=unknown)
        assert made.devices[1].budget_bytes == 0
        assert any("CUDA0 is not used" in sentence for sentence in made.limits)
