"""The harness end to end: a real server, a burst behind one prefix, figures of every kind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.contestants import Peers, Room, contestants
from bench.suite import compare
from bench.tables import cell
from bench.workloads import SHORT
from tests.tiny_models import llama, write

pytestmark = pytest.mark.llama


def test_a_burst_is_measured_and_computes_what_is_necessary_and_no_token_more(
    tmp_path: Path,
) -> None:
    model = str(write(tmp_path / "tiny.gguf", llama()))
    workload = next(workload for workload in SHORT if workload.name == "fan_out")
    room = Room(model, workload.slots, workload.cells, context_length=4096, threads=1)
    result = asyncio.run(compare(workload, contestants(Peers()), room))
    assert isinstance(result["servers"], dict)
    ((name, figures),) = result["servers"].items()
    assert name == "EdgeKV"
    assert figures["errors"] == []
    assert figures["prompt_tokens_computed"] == figures["prompt_tokens_necessary"]
    assert figures["prompt_tokens"]["median"] > 3 * figures["prompt_tokens_computed"]["median"] // 2
    assert cell("fan_out", figures, quiet=False).startswith("all finished")
