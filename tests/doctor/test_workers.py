"""What the doctor says of the backend that workers need."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from edgekv.doctor.library import examine_library
from tests.doctor import machines
from tests.doctor.machines import LIBRARY
from tests.doctor.test_findings import texts, troubles


def test_whether_workers_can_be_used_is_said_with_the_way_to_get_them(tmp_path: Path) -> None:
    without = list(examine_library(machines.laptop(tmp_path), LIBRARY))
    assert "'make rpc'" in texts(without, "workers")
    built = replace(LIBRARY, backends=("CPU", "RPC"))
    with_it = list(examine_library(machines.laptop(tmp_path), built))
    assert texts(with_it, "workers") == "this llama.cpp can use workers, and be one: edgekv worker"
    assert troubles(without) == troubles(with_it), "few people need it"
