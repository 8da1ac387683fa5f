"""Experts that stay on the host: which tensors are meant, and that the model is the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gguf import GGUFReader
from msgspec.structs import replace

from edgekv.core.plan import Opening
from edgekv.llama.backend import LlamaLibrary
from edgekv.llama.placement import Placement, kept_here
from edgekv.service.own_command import own_command
from tests import tiny_models
from tests.llama.test_adapters import SMALL, logits
from tests.tiny_models import write

pytestmark = pytest.mark.llama


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("experts") / "moe.gguf", tiny_models.qwen3moe(layers=12))


def test_the_experts_of_the_first_layers_are_meant_and_nothing_else(mixture: Path) -> None:
    patterns = [one.decode() for one in kept_here(Placement(99, host_experts=2))]
    names = [tensor.name for tensor in GGUFReader(mixture).tensors]
    meant = {name for name in names if any(re.search(one, name) for one in patterns)}
    assert meant == {
        f"blk.{il}.ffn_{part}_exps.weight" for il in range(2) for part in ("gate", "up", "down")
    }


def test_the_model_computes_the_same(mixture: Path) -> None:
    library = LlamaLibrary(own_command("grammar"))
    usual = Opening(str(mixture), SMALL)
    with_experts_on_host = replace(usual, choice=replace(SMALL, host_experts=5))
    assert (logits(library, usual) == logits(library, with_experts_on_host)).all()
    assert library.dry_run(usual) == library.dry_run(with_experts_on_host)


def test_a_placement_is_what_the_choice_says() -> None:
    assert Placement.of(replace(SMALL, gpu_layers=7, host_experts=3)) == Placement(7, 3)
