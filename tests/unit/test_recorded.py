"""Machines that are not here, from an amount of memory or from a file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from edgekv.budget.planner import Basis, plan_memory
from edgekv.budget.recorded import RecordedMachine, recorded_machine
from edgekv.budget.wish import Wish
from edgekv.core.plan import DeviceInfo
from tests.unit.budget_models import (
    GIB,
    MIB,
    RUNTIME_BYTES,
    KnownAllocator,
    graphics,
    machine,
    model,
    plan,
)

HERE = machine(2 * GIB, cores=2)
HOST = {"id": "CPU", "kind": "cpu", "total_bytes": "16GiB", "free_bytes": "12GiB"}
GPU = {"id": "CUDA0", "kind": "cuda", "total_bytes": "8GiB", "free_bytes": 7 * GIB}


def read(tmp_path: Path, content: object) -> RecordedMachine:
    file = tmp_path / "there.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return recorded_machine(str(file), HERE)


def test_an_amount_of_memory_is_a_machine_that_has_all_of_it_free() -> None:
    there = recorded_machine("8GiB", HERE)
    assert (there.machine.total.value, there.machine.available.value) == (8 * GIB, 8 * GIB)
    assert there.machine.reserve.value == 512 * MIB
    assert there.machine.cores.value == 2
    assert there.devices == ()
    assert "8.0 GiB" in there.title


def test_a_few_numbers_are_enough_of_a_file(tmp_path: Path) -> None:
    there = read(tmp_path, {"cores": 8, "devices": [HOST, GPU]})
    assert (there.machine.total.value, there.machine.available.value) == (16 * GIB, 12 * GIB)
    assert (there.machine.cores.value, there.machine.usable_cpus.value) == (8, 8)
    assert there.devices == (DeviceInfo("CUDA0", "cuda", "", 8 * GIB, 7 * GIB),)


def test_what_a_file_does_not_say_is_as_it_is_here(tmp_path: Path) -> None:
    host = {"id": "CPU", "kind": "cpu", "total_bytes": 4 * GIB}
    there = read(tmp_path, {"devices": [host]})
    assert there.machine.available.value == 4 * GIB
    assert there.machine.cores.value == HERE.cores.value


@pytest.mark.parametrize(
    "gpu", [None, graphics(6 * GIB, total=8 * GIB), graphics(GIB, unified=True)]
)
def test_the_plan_of_one_machine_makes_the_same_plan_on_another(
    tmp_path: Path, gpu: DeviceInfo | None
) -> None:
    """From what `edgekv plan --json` printed there, nothing is lost that a plan needs."""
    made = plan(host=machine(8 * GIB, cores=6), gpu=gpu)
    there = read(tmp_path, msgspec.json.encode(made).decode())
    facts = model()
    library = KnownAllocator(facts, gpu.id if gpu else None)
    basis = Basis(facts, there.devices, there.machine, Wish(), RUNTIME_BYTES)
    again = asyncio.run(plan_memory(basis, library.dry_run))
    assert (again.choice, again.lines) == (made.choice, made.lines)
    assert again.budget_bytes == made.budget_bytes


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("nonsense", "does not describe a machine"),
        ("[1]", "does not describe a machine"),
        ({"devices": []}, "one device of kind cpu and has 0"),
        ({"devices": [HOST, HOST]}, "one device of kind cpu and has 2"),
        ({"devices": [{**HOST, "total_bytes": "16 bananas"}]}, "'16 bananas' is not a size"),
        ({"devices": [{**HOST, "total_bytes": -1}]}, "-1 is no number of bytes"),
        ({"devices": [{**HOST, "free_bytes": "17GiB"}]}, "at most its total_bytes"),
        ({"devices": [HOST, {**GPU, "id": "CPU"}]}, "cannot be called 'CPU'"),
        ({"devices": [HOST], "cores": 0}, "cores must be 1 or more"),
        ({"devices": [{**HOST, "kind": "toaster"}]}, "toaster"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_in_one_sentence(
    tmp_path: Path, content: object, words: str
) -> None:
    with pytest.raises(ValueError, match="edgekv plan --json") as caught:
        read(tmp_path, content)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["8zib", "", "no/such/file.json", "/"])
def test_what_is_neither_a_size_nor_a_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="neither an amount of memory like 8GiB nor a file"):
        recorded_machine(text, HERE)
