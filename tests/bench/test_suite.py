"""The harness end to end: real servers, loads of every kind in their short form, figures."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from bench.contestants import Peers, Room, of_type
from bench.serving import Server
from bench.suite import compare
from bench.tables import cell
from bench.workloads import SHORT
from tests.tiny_models import llama, write

pytestmark = pytest.mark.llama
MOST_CONTEXT = 4096
"""That the tiny model can follow."""


def compared(name: str, tmp_path: Path) -> tuple[str, dict[str, Any]]:
    """The short form of a load on the last of EdgeKV's ways: its name, and the figures."""
    model = str(write(tmp_path / "tiny.gguf", llama()))
    workload = next(workload for workload in SHORT if workload.name == name)
    room = Room(model, workload.slots, workload.cells, MOST_CONTEXT, threads=1)
    server = workload.servers(Peers())[-1]
    result: dict[str, Any] = asyncio.run(compare(workload, [server], room))
    figures = result["servers"][server.name]
    assert figures["errors"] == []
    return server.name, figures


def test_a_burst_is_measured_and_computes_what_is_necessary_and_no_token_more(
    tmp_path: Path,
) -> None:
    name, figures = compared("fan_out", tmp_path)
    assert name == "EdgeKV"
    assert figures["prompt_tokens_computed"] == figures["prompt_tokens_necessary"]
    assert figures["prompt_tokens"]["median"] > 3 * figures["prompt_tokens_computed"]["median"] // 2
    assert cell("fan_out", figures, quiet=False).startswith("all finished")


def test_a_trace_is_sent_whole_and_computes_what_is_necessary_and_no_token_more(
    tmp_path: Path,
) -> None:
    _, figures = compared("trace", tmp_path)
    assert figures["finished"] == figures["asked"]
    assert figures["asked"]["median"] == 24
    assert figures["prompt_tokens_computed"] == figures["prompt_tokens_necessary"]
    assert figures["prompt_tokens"]["median"] > figures["prompt_tokens_computed"]["median"]
    assert cell("trace", figures, quiet=True).endswith("tokens computed")


def test_conversations_that_fit_are_held(tmp_path: Path) -> None:
    name, figures = compared("returning", tmp_path)
    assert name == "EdgeKV, q8_0"
    assert figures["conversations_held"]["median"] == 2
    assert figures["tokens_held"]["median"] == 2 * 23, "all but the last of each"


def test_half_of_the_layers_on_a_worker_answer_all_that_is_asked(tmp_path: Path) -> None:
    name, figures = compared("workers", tmp_path)
    assert name == "EdgeKV with a worker"
    assert figures["finished"] == figures["asked"]


def test_the_bytes_of_f16_hold_so_many_more_cells_of_fewer_bits() -> None:
    """Two bytes an element, against 34 for 32 of them."""
    rooms: list[Room] = []

    def start(room: Room, kv_type: str) -> AbstractContextManager[Server]:
        rooms.append(room)
        return nullcontext(Server(kv_type))

    room = Room("any", slots=17, cells=4352, context_length=512, threads=1)
    for kv_type in ("f16", "q8_0"):
        of_type(start, kv_type, room)
    assert [(room.cells, room.slots) for room in rooms] == [(4352, 17), (8192, 32)]
