"""What a machine makes of the catalogue and of the files that are on it."""

from __future__ import annotations

import asyncio
from functools import cache
from pathlib import Path

import pytest

from edgekv.budget.machine import MIB, Machine, Reading
from edgekv.budget.wish import Wish
from edgekv.core.plan import DeviceInfo, MemoryPlan
from edgekv.errors import DoesNotFit
from edgekv.models.bandwidth import Bandwidth, measure, memory_bandwidth
from edgekv.models.catalogue import catalogue
from edgekv.models.forecast import Candidate, Place, forecast
from edgekv.models.gguf_walk import walk_file
from edgekv.models.verdicts import Verdict, best_of, judge_all, not_judged_yet
from tests.models.conftest import put

GIB = 1024**3
TEN_GB = Bandwidth(10e9, 4, "cpu", "measured")


def machine_with(gib: float, cores: int = 4) -> Machine:
    total = Reading(int(gib * GIB), "a test")
    return Machine(
        total=total,
        available=total,
        reserve=Reading(int(gib * GIB) // 16, "a test"),
        usable_cpus=Reading(cores, "a test"),
        cores=Reading(cores, "a test"),
    )


@cache
def judge(gib: float, *devices: DeviceInfo) -> dict[str, Verdict]:
    """For tests without a model on disk."""
    verdicts = asyncio.run(judge_all(Place(machine_with(gib), devices), TEN_GB))
    return {verdict.name: verdict for verdict in verdicts}


def plan_for(name: str, gib: float, *devices: DeviceInfo, wish: Wish | None = None) -> MemoryPlan:
    model = catalogue()[name]
    metadata, file = model.metadata(), model.files[0]
    assert metadata is not None
    assert file.size is not None
    candidate = Candidate(model.title, metadata, file.size, file.quantisation, model.vocabulary)
    return asyncio.run(forecast(candidate, Place(machine_with(gib), devices), wish))


def test_a_forecast_keeps_the_memory_there_is_and_counts_cells_exactly(home: Path) -> None:
    plan = plan_for("qwen3-4b", 16)
    assert plan.total_bytes <= plan.budget_bytes
    (kv,) = [line.bytes for line in plan.lines if line.label == "kv"]
    assert plan.choice.kv_type_k == "f16"
    assert kv == plan.choice.cells * 147_456


def test_more_memory_gives_longer_contexts_until_the_training_ends_them(home: Path) -> None:
    contexts = [plan_for("qwen3-4b", gib).choice.context_length for gib in (8, 16, 64)]
    assert contexts == sorted(set(contexts))
    assert contexts[-1] == 40_960


def test_a_graphics_device_takes_layers(home: Path) -> None:
    card = DeviceInfo("CUDA0", "cuda", "a card", 24 * GIB, 23 * GIB)
    plan = plan_for("qwen3-8b", 16, card)
    assert plan.choice.gpu_layers == 37
    assert {line.device for line in plan.lines if line.label == "kv"} == {"CUDA0"}


def test_what_cannot_fit_says_how_much_it_needs(home: Path) -> None:
    with pytest.raises(DoesNotFit) as refused:
        plan_for("llama-3.3-70b", 16)
    assert refused.value.needed > 42e9


def test_a_forecast_is_near_the_plan_that_the_file_gets(
    home: Path, starter_model: Path, gemma_model: Path
) -> None:
    # Asked of the library itself in tests/llama; here the sizes that it gave for 4 slots.
    metadata = walk_file(starter_model, whole=False).metadata
    candidate = Candidate("starter", metadata, starter_model.stat().st_size, "Q4_1", 49_152)
    wish = Wish(context_length=8192, slots=4, host_cache_bytes=0, embeddings=False)
    plan = asyncio.run(forecast(candidate, Place(machine_with(16), ()), wish))
    sizes = {line.label: line.bytes for line in plan.lines}
    assert sizes["kv"] == 720 * MIB
    assert sizes["weights"] == 98_362_432
    assert sizes["compute"] == pytest.approx(45.6 * MIB, rel=0.1)


def test_every_model_of_the_catalogue_gets_a_verdict(home: Path) -> None:
    verdicts = judge(16)
    assert set(verdicts) == set(catalogue())
    for verdict in verdicts.values():
        assert verdict.fits != bool(verdict.outcome.problem)
    assert verdicts["qwen3-4b"].fits
    assert not verdicts["gpt-oss-120b"].fits
    assert verdicts["ministral-3-14b"].outcome.needed_bytes is None


def test_the_speed_is_what_memory_allows_and_experts_read_less(home: Path) -> None:
    verdicts = judge(64)
    speed = verdicts["qwen3-4b"].most_tokens_per_second
    assert speed == pytest.approx(10e9 / 2_497_280_256)
    dense, mixture = verdicts["qwen3-32b"], verdicts["qwen3-30b-a3b"]
    assert dense.most_tokens_per_second
    assert mixture.most_tokens_per_second
    assert mixture.most_tokens_per_second > 8 * dense.most_tokens_per_second


def test_the_speed_of_a_graphics_devices_memory_is_not_guessed(home: Path) -> None:
    card = DeviceInfo("CUDA0", "cuda", "a card", 24 * GIB, 23 * GIB)
    assert judge(16, card)["qwen3-4b"].most_tokens_per_second is None


def test_what_is_on_disk_comes_first_and_a_bad_file_hides_nothing(
    home: Path, starter_model: Path
) -> None:
    (home / "own" / starter_model.name).symlink_to(starter_model)
    (home / "own" / "a second name.gguf").symlink_to(starter_model)
    put(home / "own" / "hostile.gguf", b"GGUF\x03\0\0\0" + b"\xff" * 16)
    put(home / "own" / "empty.gguf", b"")
    verdicts = asyncio.run(judge_all(Place(machine_with(16), ()), TEN_GB))
    names = [verdict.name for verdict in verdicts if verdict.local]
    # Two names of one file are one model.
    assert sorted(names) == ["empty", "hostile", "smollm2-135m"]
    assert [v.name for v in verdicts[:3]] == names
    assert [v.name for v in not_judged_yet()] == names
    assert not any(v.fits for v in not_judged_yet())
    by_name = {verdict.name: verdict for verdict in verdicts}
    assert by_name["smollm2-135m"].fits
    assert "ends after 0 bytes" in (by_name["empty"].outcome.problem or "")
    assert "promises" in (by_name["hostile"].outcome.problem or "")


@pytest.mark.parametrize(("gib", "best"), [(2, "llama-3.2-1b"), (16, "gpt-oss-20b")])
def test_the_best_for_a_new_machine_is_the_largest_that_answers_well(
    home: Path, gib: float, best: str
) -> None:
    verdict = best_of(judge(gib).values())
    assert verdict is not None
    assert verdict.name == best


def test_a_machine_that_nothing_fits_is_proposed_nothing(home: Path) -> None:
    assert best_of(judge(0.1).values()) is None


def test_bandwidth_is_bytes_over_the_best_time() -> None:
    times = iter([0.0, 0.5, 1.0, 1.25, 2.0, 3.0])
    measured = measure(machine_with(1, cores=2), "cpu", clock=lambda: next(times))
    assert measured.bytes_per_second == 128 * MIB / 0.25
    assert measured.how == "128 MiB of memory read by 2 threads, the best of 3 times"


def test_bandwidth_is_measured_once_for_a_processor(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEKV_HOME", str(home / "kv"))
    machine = machine_with(0.25, cores=1)
    first = memory_bandwidth(machine, "cpu")
    assert first.bytes_per_second > 1e8
    assert memory_bandwidth(machine, "cpu") == first
    assert memory_bandwidth(machine, "another").processor == "another"
    (home / "kv/cache/bandwidth.json").write_bytes(b"{broken")
    assert memory_bandwidth(machine, "cpu").processor == "cpu"
