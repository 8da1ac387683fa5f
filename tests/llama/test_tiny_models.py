"""Formula = dry run = allocation, for every kind of layer, on models that the tests write."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from llama_cpp import llama_cpp as api
from msgspec.structs import replace

from edgekv.budget.formulas import Pool, kv_bytes, output_bytes, state_bytes
from edgekv.budget.geometry import Geometry, read_geometry
from edgekv.core.plan import Choice, Label, ModelFacts, Opening
from edgekv.errors import ModelError
from edgekv.llama.backend import LlamaLibrary
from edgekv.llama.placement import Placement, place
from edgekv.service.own_command import own_command
from tests import tiny_models
from tests.llama.test_budget_truth import CHOICE
from tests.tiny_models import TinyModel, write

pytestmark = pytest.mark.llama

LABELS: tuple[Label, ...] = ("kv", "recurrent", "output", "embedding")


@pytest.fixture(scope="module")
def library() -> LlamaLibrary:
    return LlamaLibrary(own_command("grammar"))


@pytest.fixture(scope="module", params=tiny_models.ALL, ids=lambda build: build.__name__)
def facts(
    request: pytest.FixtureRequest,
    library: LlamaLibrary,
    tmp_path_factory: pytest.TempPathFactory,
) -> ModelFacts:
    build: Callable[[], TinyModel] = request.param
    path = write(tmp_path_factory.mktemp("tiny") / f"{build.__name__}.gguf", build())
    return library.describe(str(path))


@pytest.fixture
def geometry(facts: ModelFacts) -> Geometry:
    known = read_geometry(facts.metadata)
    assert known is not None
    return known


def openings(facts: ModelFacts) -> list[Choice]:
    """Slots 1 to 64, K and V types, tokens at once, whole and bounded windows, with and without
    flash attention, which quantised values need.
    """
    grid = product(
        (1, 3, 64),
        (("f16", "f16"), ("q8_0", "q4_0"), ("f32", "bf16")),
        (64, 512),
        (True, False),
        (True, False),
    )
    return [
        replace(
            CHOICE,
            slots=slots,
            kept=min(4, slots),
            cells=1000 + 256 * slots,
            kv_type_k=key_type,
            # A latent is both keys and values, and has one type.
            kv_type_v=key_type if facts.architecture == "deepseek2" else value_type,
            ubatch=ubatch,
            batch=ubatch,
            swa_full=swa_full,
            flash_attention=flash,
        )
        for slots, (key_type, value_type), ubatch, swa_full, flash in grid
        if flash or key_type != "q8_0"
    ]


def test_the_formulas_foresee_every_way_to_open_it(
    library: LlamaLibrary, facts: ModelFacts, geometry: Geometry
) -> None:
    for choice in openings(facts):
        foreseen = library.dry_run(Opening(facts.path, choice))
        kv = kv_bytes(geometry, Pool.of(choice), choice.kv_type_k, choice.kv_type_v)
        assert foreseen.total("kv") == kv, choice
        assert foreseen.total("recurrent") == state_bytes(geometry, choice.num_ids)
        assert foreseen.total("output") == output_bytes(facts.num_vocab, choice.num_ids)


def test_the_library_allocates_what_its_dry_run_said(
    library: LlamaLibrary, facts: ModelFacts
) -> None:
    for choice in openings(facts)[::11]:
        choice = replace(choice, embedding_cells=256)
        foreseen = library.dry_run(Opening(facts.path, choice))
        backend, _, allocated = library.open(Opening(facts.path, choice), lambda _: None)
        backend.close()
        for label in LABELS:
            assert allocated.total(label) == foreseen.total(label), (label, choice)
        # Real buffers start where memory happens to be aligned.
        compute = foreseen.total("compute")
        assert allocated.total("compute") == pytest.approx(compute, abs=256), choice


def test_a_file_says_of_itself_what_llama_cpp_finds_in_it(
    facts: ModelFacts, geometry: Geometry
) -> None:
    has_state = any(layer.state_width for layer in geometry.layers)
    assert facts.window == geometry.window
    assert facts.is_recurrent == (has_state and not geometry.has_cells)
    assert facts.is_hybrid == (has_state and geometry.has_cells)
    assert facts.num_vocab == tiny_models.NUM_VOCAB


def test_a_model_without_one_of_its_tensors_is_refused(
    library: LlamaLibrary, tmp_path: Path
) -> None:
    whole = tiny_models.llama()
    tensors = {name: x for name, x in whole.tensors.items() if name != "blk.1.attn_k.weight"}
    path = write(tmp_path / "holed.gguf", dataclasses.replace(whole, tensors=tensors))
    with pytest.raises(ModelError, match=r"blk\.1\.attn_k\.weight"):
        library.describe(str(path))


def test_without_layers_on_it_a_graphics_device_is_left_alone() -> None:
    """llama.cpp uses none in single-device mode with a negative number for the device."""
    params = api.llama_model_default_params()
    usual = params.split_mode, params.main_gpu
    place(params, Placement(3))
    assert (params.split_mode, params.main_gpu, params.n_gpu_layers) == (*usual, 3)
    place(params, Placement(0))
    assert (params.split_mode, params.main_gpu) == (api.LLAMA_SPLIT_MODE_NONE, -1)
