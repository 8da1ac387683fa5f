"""The plan against the library: formula = dry run = allocation, and the peak stays below."""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import product
from pathlib import Path

import pytest
from llama_cpp import llama_cpp as api
from msgspec.structs import replace

from edgekv.budget.dry_run import DryRun
from edgekv.budget.estimate import estimate
from edgekv.budget.formulas import Pool, kv_bytes, output_bytes
from edgekv.budget.geometry import Geometry, read_geometry
from edgekv.budget.kv_types import KV_TYPES
from edgekv.budget.wish import Wish
from edgekv.core.events import Finished
from edgekv.core.frames import Submit
from edgekv.core.plan import Allocation, Choice, ModelFacts, Opening
from edgekv.core.request import Grammar, RequestId, SamplingParams, Token, TokenPrompt
from edgekv.llama.backend import LlamaLibrary
from edgekv.llama.context import kv_type
from edgekv.llama.library import lib
from edgekv.service.own_command import own_command
from edgekv.service.worker import Worker

pytestmark = pytest.mark.llama

MIB = 1024**2
CHOICE = Choice(
    context_length=1024,
    slots=1,
    cells=1024,
    kv_type_k="f16",
    kv_type_v="f16",
    gpu_layers=0,
    batch=512,
    ubatch=512,
    swa_full=True,
    flash_attention=True,
    threads=2,
)


@pytest.fixture(scope="module")
def library() -> LlamaLibrary:
    return LlamaLibrary(own_command("grammar"))


@pytest.fixture(params=["starter_model", "gemma_model"])
def facts(request: pytest.FixtureRequest, library: LlamaLibrary) -> ModelFacts:
    path: Path = request.getfixturevalue(request.param)
    return library.describe(str(path))


@pytest.fixture
def geometry(facts: ModelFacts) -> Geometry:
    known = read_geometry(facts.metadata)
    assert known is not None
    return known


def dry_run(library: LlamaLibrary, facts: ModelFacts, choice: Choice) -> Allocation:
    return library.dry_run(Opening(facts.path, choice))


@pytest.mark.parametrize("name", KV_TYPES)
def test_a_type_has_the_blocks_that_ggml_gives_it(name: str) -> None:
    known, number = KV_TYPES[name], kv_type(name)
    lib.ggml_blck_size.restype = api.ctypes.c_int64
    lib.ggml_type_size.restype = api.ctypes.c_size_t
    assert known.block_length == lib.ggml_blck_size(number)
    assert known.block_bytes == lib.ggml_type_size(number)


def test_the_formulas_foresee_cells_and_logits_of_every_opening(
    library: LlamaLibrary, facts: ModelFacts, geometry: Geometry
) -> None:
    grid = product((300, 4096, 32768), (1, 4), ("f16", "q8_0", "q4_0"), (True, False), (64, 512))
    for cells, slots, name, swa_full, ubatch in grid:
        choice = replace(
            CHOICE,
            cells=cells,
            slots=slots,
            kept=slots,
            kv_type_k=name,
            kv_type_v=name,
            swa_full=swa_full,
            ubatch=ubatch,
        )
        allocation = dry_run(library, facts, choice)
        assert allocation.total("kv") == kv_bytes(geometry, Pool.of(choice), name, name)
        assert allocation.total("output") == output_bytes(facts.num_vocab, choice.num_ids)


@pytest.mark.parametrize("flash", [True, False], ids=["flash attention", "scores written"])
def test_one_dry_run_foresees_the_compute_buffer_of_others(
    library: LlamaLibrary, facts: ModelFacts, geometry: Geometry, flash: bool
) -> None:
    start = replace(CHOICE, cells=8192, slots=4, kept=4, flash_attention=flash)
    run = DryRun(start, dry_run(library, facts, start))
    for cells, ubatch, swa_full in product((2048, 32768), (128, 512), (True, False)):
        choice = replace(start, cells=cells, ubatch=ubatch, batch=ubatch, swa_full=swa_full)
        foreseen = estimate(run, geometry, facts.num_vocab, choice).total("compute")
        real = dry_run(library, facts, choice).total("compute")
        # Written scores have some more rows, for a step of answers: at most one each.
        extra = 0 if flash else choice.num_ids / ubatch
        assert foreseen == pytest.approx(real, rel=0.03 + extra, abs=2 * MIB)


@pytest.mark.parametrize(
    "changes",
    [
        {"embedding_cells": 512},
        {"slots": 4, "kept": 4, "swa_full": False},
        {"kv_type_k": "q8_0", "kv_type_v": "q8_0"},
        {"flash_attention": False},
    ],
    ids=["one slot", "bounded windows", "quantised", "scores written"],
)
def test_the_library_allocates_what_its_dry_run_said(
    library: LlamaLibrary, facts: ModelFacts, changes: dict[str, object]
) -> None:
    choice = replace(CHOICE, **changes)
    foreseen = dry_run(library, facts, choice)
    backend, _, allocated = library.open(Opening(facts.path, choice), lambda _: None)
    backend.close()
    for label in ("kv", "compute", "output", "recurrent", "embedding"):
        assert allocated.total(label) == foreseen.total(label)


async def follow_schema(worker: Worker, name: str) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    grammar = Grammar("json_schema", json.dumps(schema))
    prompt = TokenPrompt((Token(300),))
    sampling = SamplingParams(grammar=grammar)
    submit = Submit(RequestId(name), prompt, 8, sampling=sampling)
    *_, last = [event async for event in worker.stream(submit)]
    assert isinstance(last, Finished)


async def _peak_and_plan(path: str, wish: Wish) -> tuple[int, int]:
    """The engine's peak resident bytes after it filled every slot's context, and the plan's."""
    worker = Worker(path, wish)
    await worker.start()
    assert worker.plan is not None
    assert not any("were planned" in sentence for sentence in worker.plan.limits)
    choice = worker.plan.choice
    length = choice.context_length - 8

    async def fill(number: int) -> None:
        tokens = tuple(Token((number * 31 + index * 7) % 30_000 + 300) for index in range(length))
        submit = Submit(RequestId(f"fill-{number}"), TokenPrompt(tokens), 8, ignore_end=True)
        *_, last = [event async for event in worker.stream(submit)]
        assert isinstance(last, Finished)

    await asyncio.gather(*(fill(number) for number in range(choice.slots)))
    if choice.embedding_cells:
        await worker.embed(((Token(300),) * 64,))
    if wish.grammars:
        for name in ("colour", "place", "animal", "number"):  # the plan counts a filled cache
            await follow_schema(worker, name)
    status = Path(f"/proc/{worker.engine_pid}/status").read_text()
    peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    await worker.close()
    return int(peak) * 1024, worker.plan.total_bytes


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process's peak like this")
@pytest.mark.parametrize(
    "wish",
    [
        Wish(context_length=512, slots=1, host_cache_bytes=0),
        Wish(context_length=256, slots=2, host_cache_bytes=0, use_mmap=False),
        Wish(context_length=1024, slots=2, embeddings=True, grammars=True),
    ],
    ids=["mapped", "copied", "server"],
)
def test_a_full_engine_stays_within_its_plan_and_the_plan_is_near(
    facts: ModelFacts, wish: Wish
) -> None:
    peak, planned = asyncio.run(_peak_and_plan(facts.path, wish))
    assert peak <= planned <= 1.1 * peak
