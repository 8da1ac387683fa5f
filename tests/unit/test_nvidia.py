"""What NVIDIA's driver says of its devices corrects what ggml says of them."""

from __future__ import annotations

import json
from typing import Any

import pynvml
import pytest

from edgekv.budget.devices import read_budget
from edgekv.budget.nvidia import Nvml, read_nvidia, with_second_opinion
from edgekv.budget.wish import Wish
from edgekv.core.nvidia import NvidiaDevice
from edgekv.core.plan import DeviceInfo
from tests.conftest import REPOSITORY
from tests.unit.recorded_nvml import Card, RecordedNvml, lost
from tests.unit.test_budget_devices import gpu_bytes, machine

MIB, GIB = 1024**2, 1024**3
CASES = json.loads((REPOSITORY / "tests/data/budget/devices.json").read_text())
BUS_IDS = ("00000000:01:00.0", "00000000:C1:00.0")
ADDRESSES = ("0000:01:00.0", "0000:c1:00.0")


def reported(
    total: int, free: int | None, address: str = ADDRESSES[0], *, unified: bool = False
) -> DeviceInfo:
    return DeviceInfo("CUDA0", "cuda", "GPU", total, free, unified, address=address)


def second(info: DeviceInfo, *cards: Card, visible: str | None = None) -> DeviceInfo:
    return with_second_opinion(info, read_nvidia(RecordedNvml(cards)), visible)


def card_of(case: dict[str, Any]) -> Card:
    device = case["device"]
    if "parent_total" in device:
        part = Card(device["total"], device["free"], uuid=device["uuid"], name="1g.10gb")
        return Card(device["parent_total"], device["parent_total"], slices=(part,))
    return Card(device["total"], device["free"])


@pytest.mark.parametrize(
    "case", [c for c in CASES if "device" in c], ids=lambda case: str(case["name"])
)
@pytest.mark.parametrize("ggml", ["nothing", "all of it", "the driver's figures"])
def test_whatever_ggml_says_no_more_than_expected_is_used(case: dict[str, Any], ggml: str) -> None:
    """The recorded devices, with NVML right and ggml blind, wrong or right."""
    device, expect = case["device"], case["expect"]
    whole = device.get("parent_total", device["total"]) or 0
    total, free = {
        "nothing": (0, None),
        "all of it": (whole, whole or None),
        "the driver's figures": (device["total"] or 0, device["free"]),
    }[ggml]
    info = reported(total, free, unified=device["integrated"])
    host = machine(case["host_available"], case.get("host_total"))
    budget = read_budget([second(info, card_of(case))], host, Wish())
    assert gpu_bytes(budget) <= expect.get("gpu_budget_at_most", 2**63)
    assert budget.total_bytes <= expect.get("gpu_plus_ram_at_most", 2**63)
    assert len(budget.pools) == 1 or not expect.get("one_pool")


def test_the_smaller_figure_is_taken_and_both_are_named_in_the_plan() -> None:
    card = Card(8 * GIB, 5 * GIB, held=(GIB, 512 * MIB))
    info = second(reported(8 * GIB, 7 * GIB), card)
    assert info.free_bytes == 5 * GIB
    [_, pool] = read_budget([info], machine(8 * GIB), Wish()).pools
    assert pool.source == (
        "free memory as NVML reports it, where llama.cpp reports 7.0 GiB; other processes hold "
        "1.5 GiB, less a reserve of 512.0 MiB"
    )


def test_where_ggml_says_less_it_is_believed() -> None:
    info = reported(8 * GIB, 3 * GIB)
    assert second(info, Card(8 * GIB, 5 * GIB)) is info


def test_a_device_that_ggml_cannot_read_is_used_by_what_nvml_reads() -> None:
    info = second(reported(0, None), Card(8 * GIB, 5 * GIB))
    assert (info.total_bytes, info.free_bytes) == (8 * GIB, 5 * GIB)
    assert info.source.endswith("where llama.cpp reports nothing")


def test_memory_that_is_not_available_to_either_leaves_the_device_unused() -> None:
    info = second(reported(0, None), Card(None, None))
    assert read_budget([info], machine(8 * GIB), Wish()).notes == (
        "CUDA0 is not used, because its free memory cannot be read.",
    )


def test_a_device_is_told_by_where_it_is_not_by_its_number() -> None:
    """CUDA counts the fastest first and only what is visible; NVML counts along the bus."""
    cards = (Card(24 * GIB, 23 * GIB, BUS_IDS[0]), Card(8 * GIB, 2 * GIB, BUS_IDS[1]))
    assert second(reported(8 * GIB, 7 * GIB, ADDRESSES[1]), *cards).free_bytes == 2 * GIB
    assert second(reported(24 * GIB, 23 * GIB, ADDRESSES[0]), *cards).free_bytes == 23 * GIB
    assert second(reported(8 * GIB, 7 * GIB, ""), *cards).free_bytes == 7 * GIB


def test_a_named_slice_is_the_one_that_counts_and_else_the_fullest() -> None:
    slices = tuple(
        Card(10 * GIB, free * GIB, uuid=f"MIG-{free}", name="1g.10gb") for free in (9, 4)
    )
    card, info = Card(80 * GIB, 70 * GIB, slices=slices), reported(80 * GIB, 70 * GIB)
    assert second(info, card, visible="MIG-9").free_bytes == 9 * GIB
    assert second(info, card, visible=None).free_bytes == 4 * GIB
    assert second(info, card).total_bytes == 10 * GIB


def test_what_windows_keeps_to_itself_is_not_guessed() -> None:
    [device] = read_nvidia(RecordedNvml([Card(8 * GIB, 5 * GIB, held=(None,))]))
    assert device.others_bytes is None


@pytest.mark.parametrize(
    "question",
    ["nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetName"],
)
def test_a_driver_that_fails_has_no_opinion(question: str) -> None:
    assert read_nvidia(lost(RecordedNvml([Card(GIB, GIB)]), question)) == ()


def test_a_driver_that_knows_no_processes_still_tells_its_memory() -> None:
    nvml = lost(RecordedNvml([Card(GIB, MIB)]), "nvmlDeviceGetComputeRunningProcesses")
    assert read_nvidia(nvml) == (
        NvidiaDevice("NVIDIA Card", ADDRESSES[0], "GPU-1", GIB, MIB, None),
    )


def test_without_a_driver_there_is_no_opinion() -> None:
    assert read_nvidia(None) == ()


def test_the_binding_has_all_that_is_asked_of_it() -> None:
    asked = [name for name in vars(Nvml) if name.startswith("nvml")]
    assert len(asked) > 10
    assert [name for name in (*asked, "NVMLError") if not hasattr(pynvml, name)] == []
