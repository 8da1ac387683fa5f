"""`--lora FILE[=SCALE]` becomes part of the wish, or one sentence."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from edgekv.core.plan import Adapter
from tests.unit.test_budget_options import parse


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.touch()
    return path


def test_adapters_keep_their_order_and_their_strength(model: Path) -> None:
    one, other = model.with_name("a.gguf"), model.with_name("b=2.gguf")
    one.touch()
    other.touch()
    wish = parse(model, "--lora", f"{one}=0.5", "--lora", str(other))
    assert wish.adapters == (Adapter(str(one), 0.5), Adapter(str(other)))


@pytest.mark.parametrize("text", ["=x", "=0", "=nan", "=1e400", "="])
def test_a_strength_that_is_none_is_refused(model: Path, text: str) -> None:
    with pytest.raises(click.BadParameter, match="how strongly"):
        parse(model, "--lora", f"{model}{text}")


def test_a_file_that_is_not_there_is_refused(model: Path) -> None:
    with pytest.raises(click.BadParameter, match="no file"):
        parse(model, "--lora", "nowhere.gguf")
