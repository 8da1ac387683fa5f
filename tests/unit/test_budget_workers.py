"""Which layers go to workers, and what is said of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from msgspec import structs

from edgekv.budget.devices import HOST, read_budget
from edgekv.budget.lending import loans
from edgekv.budget.outcomes import Outcome
from edgekv.budget.planner import Basis, plan_memory
from edgekv.budget.wish import Wish
from edgekv.budget.worker_addresses import parse_workers
from edgekv.core.plan import Allocation, BufferSize, DeviceInfo, MemoryPlan, Opening
from edgekv.errors import DoesNotFit, InvalidValue
from tests.unit.budget_models import (
    GIB,
    MIB,
    Q8_PASSED,
    RUNTIME_BYTES,
    KnownAllocator,
    graphics,
    machine,
    model,
)

LAYERS = 17
"""The model's own and the output."""
BIG = model(weight_bytes=8 * GIB)


def lent(*sizes: int) -> list[DeviceInfo]:
    return [
        DeviceInfo(f"RPC{i}", "rpc", f"ada{i}:8643", size, size, latency_ms=0.5)
        for i, size in enumerate(sizes)
    ]


class Spread(KnownAllocator):
    """The same library; each device's layers take their part of weights and cells."""

    def allocation(self, opening: Opening) -> Allocation:
        choice = opening.choice
        on_graphics = choice.gpu_layers - sum(choice.worker_layers)
        local = structs.replace(opening, choice=structs.replace(choice, gpu_layers=on_graphics))
        shares = [layers / (LAYERS - on_graphics) for layers in choice.worker_layers]
        buffers: list[BufferSize] = []
        for buffer in super().allocation(local).buffers:
            if buffer.device != HOST or buffer.label in {"output", "embedding"}:
                buffers.append(buffer)
            elif buffer.label == "compute":
                names = [f"RPC{i}" for i, share in enumerate(shares) if share]
                buffers += [structs.replace(buffer, device=name) for name in (HOST, *names)]
            else:
                buffers += _spread(buffer, shares)
        return Allocation(tuple(buffers))


def _spread(buffer: BufferSize, shares: Sequence[float]) -> list[BufferSize]:
    parts = {f"RPC{i}": int(buffer.bytes * share) for i, share in enumerate(shares) if share}
    rest = buffer.bytes - sum(parts.values())
    return [
        structs.replace(buffer, device=name, bytes=size)
        for name, size in {HOST: rest, **parts}.items()
    ]


def plan(
    host_bytes: int,
    workers: Sequence[DeviceInfo],
    wish: Wish | None = None,
    gpu: DeviceInfo | None = None,
    tested: tuple[Outcome, ...] = (),
) -> MemoryPlan:
    devices = (*workers, *([gpu] if gpu else []))
    basis = Basis(BIG, devices, machine(host_bytes), wish or Wish(), RUNTIME_BYTES, tested)
    return asyncio.run(plan_memory(basis, Spread(BIG, gpu.id if gpu else None).dry_run))


def taken(made: MemoryPlan, device_id: str) -> int:
    return sum(line.bytes for line in made.lines if line.device == device_id)


def assert_fits(made: MemoryPlan) -> None:
    assert made.fits
    for device in made.devices:
        assert taken(made, device.id) <= device.budget_bytes


def test_what_fits_here_stays_here() -> None:
    made = plan(16 * GIB, lent(16 * GIB))
    assert made.choice.worker_layers == ()
    assert taken(made, "RPC0") == 0
    assert any("No worker holds anything" in sentence for sentence in made.limits)


def test_a_worker_gets_the_fewest_layers_that_let_a_whole_conversation_fit() -> None:
    made = plan(6 * GIB, lent(16 * GIB))
    (num_moved,) = made.choice.worker_layers
    assert made.choice.gpu_layers == num_moved
    assert made.choice.context_length == 8192
    assert_fits(made)
    with pytest.raises(DoesNotFit):
        plan(6 * GIB, lent(16 * GIB), Wish(context_length=8192, gpu_layers=num_moved - 1, slots=1))
    assert any(
        f"{num_moved} of {LAYERS} layers are on workers" in sentence for sentence in made.limits
    )


def test_the_first_worker_is_filled_before_the_next_is_asked_for_anything() -> None:
    made = plan(3 * GIB, lent(2 * GIB, 8 * GIB, 8 * GIB))
    first, second, third = made.choice.worker_layers
    assert first > 0
    assert second > 0
    assert third == 0
    # With one layer more it would be too much.
    assert taken(made, "RPC0") * (first + 1) // first > 2 * GIB
    assert_fits(made)


def test_a_worker_that_is_too_small_for_a_layer_is_passed_over() -> None:
    made = plan(6 * GIB, lent(100 * MIB, 16 * GIB))
    assert made.choice.worker_layers[0] == 0
    assert made.choice.worker_layers[1] > 0
    assert_fits(made)


def test_where_no_whole_conversation_fits_a_shorter_one_does() -> None:
    made = plan(2816 * MIB, lent(6100 * MIB))
    assert sum(made.choice.worker_layers) > 0
    assert 4096 <= made.choice.context_length < 8192
    assert_fits(made)


def test_a_type_that_was_tested_here_is_not_chosen_where_workers_compute() -> None:
    here = plan(2816 * MIB + 6100 * MIB, [], tested=(Q8_PASSED,))
    assert here.choice.kv_type_k == "q8_0"
    made = plan(2816 * MIB, lent(6100 * MIB), tested=(Q8_PASSED,))
    assert sum(made.choice.worker_layers) > 0
    assert (made.choice.kv_type_k, made.choice.kv_type_v) == ("f16", "f16")
    assert made.kv_standing is None


def test_graphics_here_come_before_workers() -> None:
    gpu = graphics(4 * GIB)
    without = plan(16 * GIB, [], gpu=gpu)
    made = plan(2 * GIB, lent(16 * GIB), gpu=gpu)
    (num_moved,) = made.choice.worker_layers
    assert made.choice.gpu_layers - num_moved == without.choice.gpu_layers
    assert_fits(made)


def test_gpu_layers_without_graphics_are_layers_on_workers() -> None:
    made = plan(32 * GIB, lent(2 * GIB, 16 * GIB), Wish(gpu_layers=9))
    assert sum(made.choice.worker_layers) == made.choice.gpu_layers == 9
    assert_fits(made)


def test_no_gpu_layers_keep_everything_here() -> None:
    with pytest.raises(DoesNotFit):
        plan(6 * GIB, lent(16 * GIB), Wish(gpu_layers=0))


def test_gpu_layers_without_graphics_or_workers_are_refused() -> None:
    with pytest.raises(InvalidValue, match="none can be used here"):
        plan(32 * GIB, [], Wish(gpu_layers=9))


def test_what_fits_nowhere_is_refused_with_both_numbers() -> None:
    with pytest.raises(
        DoesNotFit,
        match=r"needs .* and 3\.8 GiB may be used; lend more on a worker, or name another",
    ):
        plan(2 * GIB, lent(2 * GIB))


def test_memory_bounds_this_machine_and_not_its_workers() -> None:
    budget = read_budget(lent(3 * GIB), machine(8 * GIB), Wish(memory_bytes=2 * GIB))
    assert (budget.local_bytes, budget.total_bytes) == (2 * GIB, 5 * GIB)
    assert not budget.has_gpu


def test_a_plan_tells_how_far_away_a_worker_is() -> None:
    made = plan(6 * GIB, lent(16 * GIB))
    assert [device.latency_ms for device in made.devices] == [None, 0.5]


def test_a_host_lends_what_a_plan_could_use_of_it() -> None:
    host = machine(8 * GIB)
    (loan,), notes = loans([], host, Wish())
    assert (loan.device_id, loan.bytes) == (HOST, read_budget([], host, Wish()).total_bytes)
    (less,), _ = loans([], host, Wish(memory_bytes=GIB))
    assert (less.bytes, notes) == (GIB, ())
    (all_there_is,), said = loans([], host, Wish(memory_bytes=64 * GIB))
    assert all_there_is.bytes == 8 * GIB
    assert "only 8.0 GiB" in said[0]


def test_a_machine_with_graphics_lends_those_and_no_more_than_it_was_told() -> None:
    cards = [replace_id(graphics(4 * GIB), f"CUDA{i}") for i in range(2)]
    both, _ = loans(cards, machine(8 * GIB), Wish())
    assert [loan.device_id for loan in both] == ["CUDA0", "CUDA1"]
    capped, _ = loans(cards, machine(8 * GIB), Wish(memory_bytes=5 * GIB))
    assert sum(loan.bytes for loan in capped) == 5 * GIB
    shared, _ = loans([graphics(8 * GIB, unified=True)], machine(8 * GIB), Wish())
    assert [loan.device_id for loan in shared] == ["CUDA0"]


def replace_id(device: DeviceInfo, device_id: str) -> DeviceInfo:
    return structs.replace(device, id=device_id)


def test_addresses_are_read_as_people_write_them() -> None:
    assert parse_workers("ada, 10.0.0.5:9000") == ("ada:8643", "10.0.0.5:9000")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "'' is not the address"),
        ("ada,,bob", "'' is not the address"),
        ("::1", "'::1' is not the address"),
        ("http://ada", "is not the address"),
        ("ada:x", "is not the address"),
        ("ada:0", "has no port from 1"),
        ("ada:70000", "has no port from 1"),
        ("ada,ada:8643", "named twice"),
        (",".join(f"ada{i}" for i in range(16)), "16 workers are too many"),
    ],
)
def test_what_is_no_address_is_refused_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_workers(text)
