"""LoRA adapters on tiny models and on a real one: counted, applied, refused.

ggml-org/llama.cpp#26207, vllm-project/vllm#3264 and #42125: what was computed with one adapter was
taken for another's.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from edgekv.core.plan import Adapter, Opening
from edgekv.core.request import Segment
from edgekv.errors import ModelError
from edgekv.llama.backend import LlamaBackend, LlamaLibrary
from edgekv.llama.state_key import state_key
from edgekv.service.own_command import own_command
from tests import tiny_models
from tests.llama.test_backend import A, compute
from tests.llama.test_budget_truth import CHOICE
from tests.tiny_adapters import write_adapter
from tests.tiny_models import EMBEDDING, HIDDEN, WIDTH, write

pytestmark = pytest.mark.llama

PAIRS = {
    f"blk.{il}.{name}.weight": lengths
    for il in range(3)
    for name, lengths in (("attn_v", (EMBEDDING, WIDTH)), ("ffn_up", (EMBEDDING, HIDDEN)))
}
SMALL = replace(CHOICE, cells=256, context_length=256)


@pytest.fixture(scope="module")
def library() -> LlamaLibrary:
    return LlamaLibrary(own_command("grammar"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("lora") / "base.gguf", tiny_models.llama())


def logits(library: LlamaLibrary, opening: Opening) -> np.ndarray:
    backend, _, _ = library.open(opening, lambda _: None)
    assert isinstance(backend, LlamaBackend)
    tokens = backend._model.vocabulary.tokenize([Segment("A robot", False)])
    found = compute(backend, A, 0, tokens)
    backend.close()
    return np.array(found)


def test_each_adapter_and_each_strength_gives_answers_of_its_own(
    library: LlamaLibrary, base: Path
) -> None:
    one = write_adapter(base.with_name("one.gguf"), "llama", PAIRS)
    other = write_adapter(base.with_name("other.gguf"), "llama", PAIRS)
    sets = ((), (Adapter(str(one)),), (Adapter(str(one), 0.5),), (Adapter(str(other)),))
    openings = [Opening(str(base), SMALL, adapters=adapters) for adapters in sets]
    found = [logits(library, opening) for opening in openings]
    for i, first in enumerate(found):
        assert (first == logits(library, openings[i])).all()
        assert all(np.abs(first - second).max() > 0.01 for second in found[:i])
    # Nothing that one of them computed is ever taken for another's.
    assert len({state_key(opening) for opening in openings}) == len(openings)


def test_an_adapter_is_counted_and_its_room_is_foreseen(library: LlamaLibrary, base: Path) -> None:
    adapter = write_adapter(base.with_name("counted.gguf"), "llama", PAIRS)
    choice = replace(CHOICE, embedding_cells=256)
    opening = Opening(str(base), choice, adapters=(Adapter(str(adapter)),))
    foreseen = library.dry_run(opening)
    backend, _, allocated = library.open(opening, lambda _: None)
    backend.close()
    values = sum(4 * (inner + outer) for inner, outer in PAIRS.values())
    assert foreseen.total("adapter") == allocated.total("adapter") == 4 * values
    assert allocated.total("kv") == foreseen.total("kv")
    plain = library.dry_run(Opening(str(base), choice)).total("compute")
    assert plain <= allocated.total("compute") <= foreseen.total("compute")


def test_what_is_no_adapter_of_this_model_is_refused(library: LlamaLibrary, base: Path) -> None:
    for architecture, pairs, words in (
        ("qwen3", PAIRS, "is an adapter for qwen3 models and this is a llama model"),
        ("llama", {"blk.0.attn_v.weight": (2 * EMBEDDING, WIDTH)}, "does not fit this model"),
        ("llama", {"blk.9.attn_v.weight": (EMBEDDING, WIDTH)}, "does not fit this model"),
    ):
        path = write_adapter(base.with_name("wrong.gguf"), architecture, pairs)
        with pytest.raises(ModelError, match=words):
            library.dry_run(Opening(str(base), SMALL, adapters=(Adapter(str(path)),)))
    with pytest.raises(ModelError, match="is a model and no adapter"):
        library.dry_run(Opening(str(base), SMALL, adapters=(Adapter(str(base)),)))


def test_an_adapter_alone_is_no_model(library: LlamaLibrary, base: Path) -> None:
    adapter = write_adapter(base.with_name("alone.gguf"), "llama", PAIRS)
    with pytest.raises(ModelError, match="--lora"):
        library.describe(str(adapter))
