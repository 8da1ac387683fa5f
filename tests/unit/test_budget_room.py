"""What is left of a machine's memory while a plan is being filled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgekv.budget.pressure import Room
from edgekv.budget.room import LEAST_MARGIN, Calm, Held, margins, rooms, with_given_back
from edgekv.budget.wish import Wish
from edgekv.core.plan import Allocation, BufferSize, DeviceInfo, MemoryPlan
from tests.unit.budget_models import GIB, MIB, graphics, machine, plan

ALLOCATED = Allocation(
    (BufferSize("CPU", "kv", 100 * MIB), BufferSize("CUDA0", "kv", 200 * MIB, False, "CUDA0"))
)


def read(made: MemoryPlan, available: int, taken: int, *devices: DeviceInfo) -> list[Room]:
    return list(rooms(made, ALLOCATED, Held(available, taken, devices), margins(made)))


def test_before_anything_is_taken_what_the_plan_left_is_spare() -> None:
    made = plan(host=machine(8 * GIB))
    (host,) = read(made, 8 * GIB, taken=0)
    assert host.spare_bytes == 8 * GIB - made.total_bytes


@given(st.integers(0, GIB))
def test_filling_the_plan_changes_nothing(taken: int) -> None:
    made = plan(host=machine(8 * GIB))
    before, after = read(made, 8 * GIB, 0), read(made, 8 * GIB - taken, taken)
    assert before == after


def test_what_others_take_is_missing() -> None:
    made = plan(host=machine(8 * GIB))
    (before,), (after,) = read(made, 8 * GIB, 0), read(made, 5 * GIB, 0)
    assert before.spare_bytes - after.spare_bytes == 3 * GIB


@pytest.mark.parametrize(
    ("available", "margin"),
    # A plan that had to take nearly all is content with what it left, one with plenty with a
    # reserve: a sixteenth, 256 MiB at least.
    [(64 * GIB, 2 * GIB), (GIB, 128 * MIB)],
)
def test_the_margin_is_what_the_plan_left_but_no_more_than_a_reserve(
    available: int, margin: int
) -> None:
    (host,) = read(plan(host=machine(available)), available, 0)
    assert LEAST_MARGIN <= host.margin_bytes <= margin


def test_a_device_of_its_own_is_watched_by_what_its_driver_reports() -> None:
    made = plan(host=machine(8 * GIB), gpu=graphics(16 * GIB))
    claim = sum(line.bytes for line in made.lines if line.device == "CUDA0")
    host, gpu = read(made, 8 * GIB, 0, graphics(GIB))
    assert (host.device, gpu.device, gpu.is_host) == ("CPU", "CUDA0", False)
    assert gpu.spare_bytes == GIB - (claim - 200 * MIB)


def test_a_device_whose_driver_falls_silent_says_nothing() -> None:
    made = plan(host=machine(8 * GIB), gpu=graphics(16 * GIB))
    silent = DeviceInfo("CUDA0", "cuda", "GPU", 16 * GIB, None)
    assert len(read(made, 8 * GIB, 0, silent)) == 1


def test_a_device_that_shares_the_hosts_memory_is_counted_with_it() -> None:
    shared = graphics(8 * GIB, unified=True)
    made = plan(host=machine(8 * GIB), gpu=shared)
    (host,) = read(made, 8 * GIB, 0, shared)
    # Its driver took the 200 MiB, so they are no longer to be taken.
    assert host.spare_bytes == 8 * GIB - made.total_bytes + 200 * MIB


def test_what_stays_empty_while_nothing_is_kept_is_the_room_for_copies() -> None:
    made = plan(Wish(host_cache_bytes=300 * MIB), host=machine(8 * GIB))
    copies = [line.bytes for line in made.lines if line.label == "host_cache"]
    (host,) = read(made, 8 * GIB, 0)
    assert [host.idle_bytes] == copies


def test_of_a_calm_the_least_counts_on_every_device_whatever_the_engine_took_meanwhile() -> None:
    looks = [
        Held(6 * GIB, GIB, (graphics(3 * GIB),)),
        Held(3 * GIB, 2 * GIB, (graphics(2 * GIB),)),  # of 5 GiB the engine took one more
        Held(5 * GIB, 2 * GIB, (graphics(4 * GIB),)),
    ]
    calm = Calm(0.0, looks[0])
    for look in looks[1:]:
        calm = calm.with_look(look)
    least = calm.least
    assert least.available + least.private == 5 * GIB
    assert least.private == 2 * GIB
    assert [device.free_bytes for device in least.devices] == [2 * GIB]


def test_an_engine_that_ended_would_give_back_all_that_it_holds() -> None:
    made = plan(host=machine(8 * GIB), gpu=graphics(16 * GIB))
    cpu = DeviceInfo("CPU", "cpu", "processor", 8 * GIB, 4 * GIB)
    held = Held(4 * GIB, GIB, (cpu, graphics(GIB)))
    given_back = with_given_back(made, ALLOCATED, held)
    assert (given_back.available, given_back.private) == (5 * GIB, 0)
    assert [device.free_bytes for device in given_back.devices] == [4 * GIB, GIB + 200 * MIB]


def test_what_a_driver_holds_of_the_hosts_memory_would_come_back_with_it() -> None:
    shared = graphics(8 * GIB, unified=True)
    made = plan(host=machine(8 * GIB), gpu=shared)
    given_back = with_given_back(made, ALLOCATED, Held(4 * GIB, GIB, (shared,)))
    assert given_back.available == 5 * GIB + 200 * MIB
