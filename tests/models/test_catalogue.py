"""models/catalog.toml: its shape, and its geometries against sizes that other people printed."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from edgekv.budget.formulas import kv_bytes_per_cell, state_bytes
from edgekv.budget.geometry import Geometry, read_geometry
from edgekv.budget.machine import MIB
from edgekv.errors import ModelError
from edgekv.models.catalogue import (
    STARTER,
    CatalogueModel,
    catalogue,
    catalogue_name,
    unknown_name,
)
from edgekv.models.quantisations import quantisation_label
from edgekv.models.reference import read_hub_reference
from tests.conftest import REPOSITORY

MODELS = catalogue()
for_each_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def geometry_of(model: CatalogueModel) -> Geometry:
    metadata = model.metadata()
    assert metadata is not None
    geometry = read_geometry(metadata)
    assert geometry is not None
    return geometry


def known() -> dict[str, dict[str, Any]]:
    """What load logs and model configurations say: tests/data/geometries.jsonl, with sources."""
    lines = (REPOSITORY / "tests/data/geometries.jsonl").read_text().splitlines()
    rows = map(json.loads, lines)
    return {name: row for row in rows for name in row["catalogue"]}


def test_there_are_models_for_every_machine_and_use() -> None:
    assert len(MODELS) >= 40
    assert {model.use for model in MODELS.values()} == {"chat", "code", "reasoning"}
    sizes = [size for model in MODELS.values() if (size := model.files[0].size)]
    assert min(sizes) < 200e6
    assert max(sizes) > 40e9


@for_each_model
def test_a_model_says_where_it_is_and_what_it_is_good_at_in_one_line(model: CatalogueModel) -> None:
    assert read_hub_reference(f"hf:{model.repository}").repository == model.repository
    assert 10 < len(model.about) <= 80
    assert "\n" not in model.about
    assert model.files


@for_each_model
def test_a_file_is_named_by_its_quantisation_and_has_one_size(model: CatalogueModel) -> None:
    for file in model.files:
        assert quantisation_label(file.name) == file.quantisation.upper()
        assert (file.bytes is None) != (file.about_bytes is None)
        assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)


@pytest.mark.parametrize("name", known())
def test_a_token_takes_what_others_measured(name: str) -> None:
    geometry, row = geometry_of(MODELS[name]), known()[name]
    measured = row.get("kv_f16_bytes_per_token_all_layers") or row.get("kv_f16_bytes_per_token")
    if measured is not None:
        assert kv_bytes_per_cell(geometry)["f16"] == measured
    if "rs_mib_per_seq" in row:
        assert state_bytes(geometry, 1) / MIB == pytest.approx(row["rs_mib_per_seq"], abs=0.005)
    if "swa" in row:
        windowed = sum(layer.is_windowed and layer.k_width > 0 for layer in geometry.layers)
        swa = row["swa"]
        assert windowed == swa.get("n_swa_layers", swa.get("n_swa_layers_with_kv"))
        assert geometry.window == swa["window"]


@pytest.mark.parametrize("name", known())
def test_a_training_context_is_the_one_that_others_read(name: str) -> None:
    row, stated = known()[name], MODELS[name].context_train
    # This one's GGUF files say less than the configuration they come from.
    in_files = 32_768 if "GGUF prints n_ctx_train 32768" in row.get("note", "") else None
    if stated is not None and "n_ctx_train" in row and "context_of_file" not in row:
        assert stated == (in_files or row["n_ctx_train"])


def test_every_geometry_of_the_catalogue_is_held_against_a_measured_one() -> None:
    assert {name for name, model in MODELS.items() if model.geometry} == set(known())


def test_the_starter_has_two_names() -> None:
    assert catalogue_name("Starter") == catalogue_name("SmolLM2-135M") == STARTER


def test_a_name_with_a_slip_is_answered_with_the_nearest() -> None:
    assert "did you mean 'qwen3-4b'" in str(unknown_name("qwen3-4"))
    assert "did you mean" not in str(unknown_name("zzz"))
    assert isinstance(unknown_name("zzz"), ModelError)
