"""Which memory may be used, on machines from public bug reports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from edgekv.budget.devices import Budget, MemoryPool, device_reserve, read_budget
from edgekv.budget.machine import Machine, Reading, system_reserve
from edgekv.budget.sizes import Reserve, parse_reserve
from edgekv.budget.wish import Wish
from edgekv.core.plan import DeviceInfo
from tests.conftest import REPOSITORY

MIB, GIB = 1024**2, 1024**3
CASES = json.loads((REPOSITORY / "tests/data/budget/devices.json").read_text())
BY_NAME = {case["name"]: case for case in CASES}


def machine(available: int, total: int | None = None) -> Machine:
    total = total or 2 * available
    return Machine(
        total=Reading(total, "test"),
        available=Reading(available, "test"),
        reserve=system_reserve(total),
        usable_cpus=Reading(4, "test"),
        cores=Reading(4, "test"),
    )


def device(number: int, reported: Mapping[str, Any]) -> DeviceInfo:
    """A device as the engine passes on what its driver reported; null is 0 of unknown."""
    return DeviceInfo(
        id=f"CUDA{number}",
        kind="cuda",
        name="GPU",
        total_bytes=reported["total"] or 0,
        free_bytes=reported["free"],
        unified=reported.get("integrated", False),
    )


def budget_of(case: Mapping[str, Any], wish: Wish | None = None) -> Budget:
    reported = case.get("devices") or [case["device"]]
    if "visible" in case:
        # CUDA numbers only what it shows, so hidden devices never reach us.
        reported = [reported[int(number)] for number in case["visible"].split(",") if number]
    devices = [device(number, one) for number, one in enumerate(reported)]
    host = machine(case["host_available"], case.get("host_total"))
    return read_budget(devices, host, wish or Wish())


def gpu_pools(budget: Budget) -> list[MemoryPool]:
    """Pools a graphics device draws from, the host's included where it shares it."""
    return [pool for pool in budget.pools if set(pool.device_ids) - {"CPU"}]


def gpu_bytes(budget: Budget) -> int:
    return sum(pool.budget_bytes for pool in gpu_pools(budget))


@pytest.mark.parametrize("case", CASES, ids=BY_NAME)
def test_what_may_be_used_is_within_what_is_expected(case: dict[str, Any]) -> None:
    budget, expect = budget_of(case), case["expect"]
    assert len(budget.pools) == 1 or not expect.get("one_pool")
    assert gpu_bytes(budget) <= expect.get("gpu_budget_at_most", 2**63)
    assert gpu_bytes(budget) >= expect.get("gpu_budget_at_least", 0)
    assert gpu_bytes(budget) == expect.get("gpu_budget", gpu_bytes(budget))
    assert budget.host.budget_bytes <= expect.get("ram_budget_at_most", 2**63)
    assert budget.total_bytes <= expect.get("gpu_plus_ram_at_most", 2**63)


def test_a_carve_out_larger_than_the_host_is_memory_of_its_own() -> None:
    budget = budget_of(BY_NAME["APU with 96G carve-out, little host RAM"])
    assert len(budget.pools) == 2
    assert gpu_bytes(budget) > 16 * GIB


@pytest.mark.parametrize(
    ("carved", "reported", "host", "gpu_at_most"),
    [
        # A small one: the driver adds half of the host's pages, which the host has already.
        (GIB // 2, 8 * GIB, 15 * GIB, 15 * GIB),
        # Half of 64 GiB, and as many pages of the host again.
        (48 * GIB, 56 * GIB, 16 * GIB, 48 * GIB),
    ],
)
def test_pages_of_the_host_that_an_integrated_gpu_may_take_are_counted_once(
    carved: int, reported: int, host: int, gpu_at_most: int
) -> None:
    with_carve_out = replace(machine(host, host), carve_out=Reading(carved, "sysfs"))
    apu = DeviceInfo("Vulkan0", "vulkan", "APU", reported, reported, unified=True)
    budget = read_budget([apu], with_carve_out, Wish())
    assert gpu_bytes(budget) <= gpu_at_most
    assert budget.total_bytes <= host + (carved if len(budget.pools) > 1 else 0)


def test_an_empty_list_of_visible_devices_leaves_no_gpu() -> None:
    assert not budget_of(BY_NAME["CUDA_VISIBLE_DEVICES empty"]).has_gpu


def test_a_nearly_full_gpu_has_nothing_to_give() -> None:
    assert gpu_bytes(budget_of(BY_NAME["GPU nearly full"])) == 0


def test_a_device_that_cannot_be_read_is_not_used_and_that_is_said() -> None:
    unknown = DeviceInfo("CUDA0", "cuda", "GPU", total_bytes=0, free_bytes=None)
    budget = read_budget([unknown], machine(8 * GIB), Wish())
    assert not budget.has_gpu
    assert budget.notes == ("CUDA0 is not used, because its free memory cannot be read.",)


def test_the_processor_as_a_device_adds_nothing() -> None:
    cpu = DeviceInfo("CPU", "cpu", "AMD EPYC", total_bytes=64 * GIB, free_bytes=64 * GIB)
    budget = read_budget([cpu], machine(8 * GIB), Wish())
    assert budget.total_bytes == 7 * GIB
    assert not budget.has_gpu


def test_the_host_keeps_its_reserve() -> None:
    budget = read_budget([], machine(8 * GIB), Wish())
    assert budget.total_bytes == 7 * GIB
    assert "less a reserve of 1.0 GiB" in budget.host.source


def test_the_reserve_can_be_chosen() -> None:
    assert read_budget([], machine(8 * GIB), Wish(reserve=Reserve(0))).total_bytes == 8 * GIB
    assert read_budget([], machine(8 * GIB), Wish(reserve=Reserve(9 * GIB))).total_bytes == 0


def test_a_part_of_all_memory_can_be_the_reserve_and_the_plan_says_so() -> None:
    host = machine(8 * GIB, total=10 * GIB)
    budget = read_budget([], host, Wish(reserve=parse_reserve("12.5 %")))
    assert budget.total_bytes == 8 * GIB - 5 * GIB // 4
    assert budget.host.source.endswith("less a reserve of 1.2 GiB, as --reserve 12.5% says")


@pytest.mark.parametrize(
    ("total", "rule"),
    [
        (GIB, "an eighth of all memory"),
        (3 * GIB, "the least that is kept"),
        (8 * GIB, "a sixteenth of all memory"),
        (64 * GIB, "the most that is kept"),
    ],
)
def test_the_plan_says_which_bound_made_its_reserve(total: int, rule: str) -> None:
    assert read_budget([], machine(total, total), Wish()).host.source.endswith(rule)


def test_a_given_amount_of_memory_is_the_whole_budget() -> None:
    budget = read_budget([], machine(8 * GIB), Wish(memory_bytes=GIB))
    assert (budget.total_bytes, budget.host.source) == (GIB, "--memory")


def test_more_memory_than_there_is_becomes_what_there_is_and_that_is_said() -> None:
    budget = read_budget([], machine(8 * GIB), Wish(memory_bytes=64 * GIB))
    assert budget.total_bytes == 8 * GIB
    assert budget.notes == (
        "--memory allows 64.0 GiB, but only 8.0 GiB of the host's memory is available now.",
    )


def test_a_given_amount_bounds_host_and_gpu_together() -> None:
    gpu = DeviceInfo("CUDA0", "cuda", "GPU", total_bytes=8 * GIB, free_bytes=7 * GIB)
    budget = read_budget([gpu], machine(8 * GIB), Wish(memory_bytes=2 * GIB))
    assert budget.total_bytes == 2 * GIB


def test_where_windows_manages_the_memory_twice_as_much_stays_free_and_that_is_said() -> None:
    gpu = DeviceInfo("CUDA0", "cuda", "GPU", total_bytes=8 * GIB, free_bytes=7 * GIB)
    rpc = DeviceInfo("RPC0", "rpc", "elsewhere", total_bytes=8 * GIB, free_bytes=7 * GIB)
    windows = replace(machine(8 * GIB), spills=True)
    [_, card, other] = read_budget([gpu, rpc], windows, Wish()).pools
    assert card.budget_bytes == 6 * GIB
    assert card.source.endswith(
        "less a reserve of 1.0 GiB, because Windows moves what does not fit into the host's "
        "memory, in silence"
    )
    assert (other.budget_bytes, other.source) == (7 * GIB, "what the worker lends")


@pytest.mark.parametrize(
    ("total", "reserve"), [(0, 256 * MIB), (8 * GIB, 512 * MIB), (80 * GIB, 1024 * MIB)]
)
def test_a_device_keeps_a_part_free(total: int, reserve: int) -> None:
    assert device_reserve(total) == reserve
