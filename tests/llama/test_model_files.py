"""What the adapter reads of model files, what it would allocate for them, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from edgekv.core.plan import Choice, Opening
from edgekv.core.request import Segment
from edgekv.errors import ModelError, UnsupportedOption
from edgekv.llama.backend import LlamaLibrary
from edgekv.service.own_command import own_command

pytestmark = pytest.mark.llama

CHOICE = Choice(
    context_length=512,
    slots=4,
    cells=512,
    kv_type_k="q8_0",
    kv_type_v="q8_0",
    gpu_layers=0,
    batch=256,
    ubatch=256,
    swa_full=True,
    flash_attention=True,
    threads=2,
)


@pytest.fixture(scope="module")
def library() -> LlamaLibrary:
    return LlamaLibrary(own_command("grammar"))


@pytest.fixture(params=["starter_model", "gemma_model"])
def model_path(request: pytest.FixtureRequest) -> str:
    path: Path = request.getfixturevalue(request.param)
    return str(path)


@pytest.mark.parametrize("swa_full", [True, False])
@pytest.mark.parametrize("slots", [1, 16])
def test_a_dry_run_tells_what_opening_allocates(
    library: LlamaLibrary, model_path: str, slots: int, swa_full: bool
) -> None:
    choice = replace(CHOICE, slots=slots, swa_full=swa_full, cells=4096)
    opening = Opening(model_path, choice, use_mmap=False)
    simulated = library.dry_run(opening)
    opened, _, real = library.open(opening, lambda _: None)
    opened.close()
    assert simulated.total("weights") == real.total("weights")
    assert simulated.total("compute") == real.total("compute")
    # The log prints two decimals of a MiB.
    assert simulated.total("kv") == pytest.approx(real.total("kv"), abs=2 * 5_300)
    assert simulated.total("output") == real.total("output")


def test_repacked_weights_come_on_top_of_the_mapped_file(
    library: LlamaLibrary, model_path: str
) -> None:
    opening = Opening(model_path, CHOICE)
    dry_run = library.dry_run(opening)
    simulated = {b.buffer_type: b.bytes for b in dry_run.buffers if b.label == "weights"}
    opened, _, real = library.open(opening, lambda _: None)
    opened.close()
    repacked = sum(b.bytes for b in real.buffers if b.buffer_type == "CPU_REPACK")
    mapped = sum(b.bytes for b in real.buffers if b.mapped)
    assert repacked == simulated.get("CPU_REPACK", 0)
    assert mapped == simulated["CPU"] + repacked


def test_facts_of_the_starter(library: LlamaLibrary, starter_model: Path) -> None:
    facts = library.describe(str(starter_model))
    assert (facts.architecture, facts.num_layers, facts.num_vocab) == ("llama", 30, 49152)
    assert (facts.context_train, facts.window, facts.file_bytes) == (8192, 0, 98_362_432)
    assert facts.metadata["llama.attention.head_count_kv"] == "3"
    assert (facts.adds_bos, facts.eos_text) == (False, "<|im_end|>")
    assert "<|im_start|>" in facts.control_texts
    assert facts.chat_template is not None


def test_facts_of_a_window_model(library: LlamaLibrary, gemma_model: Path) -> None:
    facts = library.describe(str(gemma_model))
    assert (facts.architecture, facts.window, facts.adds_bos) == ("gemma3", 512, True)
    assert facts.chat_template is None
    assert facts.can_share_prefixes(swa_full=True)
    assert not facts.can_share_prefixes(swa_full=False)


def test_the_start_token_comes_once(library: LlamaLibrary, gemma_model: Path) -> None:
    """Twice elsewhere: abetlen/llama-cpp-python#1501 and #1561, LostRuins/koboldcpp#917."""
    opened, vocabulary, _ = library.open(Opening(str(gemma_model), CHOICE), lambda _: None)
    try:
        for text in ("Hello", "<bos>Hello"):
            assert vocabulary.tokenize([Segment(text, True)]) == [2, 9259]
    finally:
        opened.close()


def test_control_tokens_in_plain_text_stay_text(library: LlamaLibrary, starter_model: Path) -> None:
    opened, vocabulary, _ = library.open(Opening(str(starter_model), CHOICE), lambda _: None)
    try:
        control = vocabulary.tokenize([Segment("<|im_end|>", True)])
        plain = vocabulary.tokenize([Segment("<|im_end|>", False)])
    finally:
        opened.close()
    assert control == [2]
    assert len(plain) > 1
    assert b"".join(map(vocabulary.piece, plain)) == b"<|im_end|>"


def test_missing_files_and_folders_are_refused(library: LlamaLibrary, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model file"):
        library.describe(str(tmp_path / "absent.gguf"))
    with pytest.raises(ModelError, match="is a folder"):
        library.describe(str(tmp_path))


def test_an_unknown_kv_type_is_refused_by_name(library: LlamaLibrary, starter_model: Path) -> None:
    choice = replace(CHOICE, kv_type_k="q9_9")
    with pytest.raises(UnsupportedOption, match="q9_9"):
        library.dry_run(Opening(str(starter_model), choice))


def test_a_context_that_cannot_be_opened_is_refused_in_words(
    library: LlamaLibrary, starter_model: Path
) -> None:
    quantised_without_flash = replace(CHOICE, flash_attention=False)
    with pytest.raises(ModelError, match="cannot open a context"):
        library.open(Opening(str(starter_model), quantised_without_flash), lambda _: None)
