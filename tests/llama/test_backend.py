"""The adapter on real models: what llama.cpp promises, and that we ask for it rightly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from llama_cpp import llama_cpp as api
from msgspec.structs import replace

from edgekv.core.batch import BatchPlan, BatchSlice, DecodeStatus
from edgekv.core.plan import Choice, Opening
from edgekv.core.request import SamplingParams, Segment, SeqId, Token
from edgekv.llama.backend import LlamaBackend, LlamaLibrary
from edgekv.service.own_command import own_command

pytestmark = pytest.mark.llama

TEXT = "The little robot walked to the edge of town and looked at the lights. " * 6
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
A, B, C = SeqId(0), SeqId(1), SeqId(2)
GREEDY = SamplingParams(temperature=0)
BY_CHANCE = SamplingParams(temperature=1e12, top_k=0, top_p=1.0, min_p=0.0)
"""Every token is equally likely to the last bit, so that the random stream alone chooses: for
answers whose logits may differ, because steps of different shapes compute them.
"""


@pytest.fixture(scope="module")
def library() -> LlamaLibrary:
    return LlamaLibrary(own_command("grammar"))


@pytest.fixture(params=["starter_model", "gemma_model"])
def model_path(request: pytest.FixtureRequest) -> str:
    path: Path = request.getfixturevalue(request.param)
    return str(path)


@pytest.fixture
def backend(library: LlamaLibrary, model_path: str) -> Iterator[LlamaBackend]:
    opened, _, _ = library.open(Opening(model_path, CHOICE), lambda _: None)
    assert isinstance(opened, LlamaBackend)
    yield opened
    opened.close()


def tokens_of(backend: LlamaBackend, text: str) -> list[Token]:
    return backend._model.vocabulary.tokenize([Segment(text, True)])


def compute(backend: LlamaBackend, seq_id: SeqId, start: int, tokens: list[Token]) -> np.ndarray:
    """Decode `tokens` in one batch; the logits after the last."""
    plan = BatchPlan((BatchSlice(seq_id, start, tuple(tokens), True),))
    assert backend.decode(plan) is DecodeStatus.DONE
    row = backend._context.output_rows[seq_id]
    pointer = api.llama_get_logits_ith(backend._context.handle, row)
    return np.ctypeslib.as_array(pointer, (backend._model.vocabulary.num_tokens,)).copy()


def test_a_shared_prefix_gives_the_logits_of_a_computed_one(backend: LlamaBackend) -> None:
    tokens = tokens_of(backend, TEXT)[:80]
    compute(backend, A, 0, tokens[:60])
    after_own = compute(backend, A, 60, tokens[60:])
    backend.share(A, B, 0, 60)
    after_shared = compute(backend, B, 60, tokens[60:])
    assert np.array_equal(after_own, after_shared)


def test_a_borrower_outlives_the_owner(backend: LlamaBackend) -> None:
    tokens = tokens_of(backend, TEXT)[:80]
    compute(backend, A, 0, tokens[:60])
    expected = compute(backend, A, 60, tokens[60:])
    backend.share(A, B, 0, 60)
    backend.cut(A, 0, len(tokens))
    assert np.array_equal(expected, compute(backend, B, 60, tokens[60:]))


def test_swapping_own_cells_for_a_twins_changes_nothing(backend: LlamaBackend) -> None:
    tokens = tokens_of(backend, TEXT)[:80]
    compute(backend, A, 0, tokens[:60])
    expected = compute(backend, A, 60, tokens[60:])
    compute(backend, B, 0, tokens[:60])
    backend.cut(B, 0, 60)
    backend.share(A, B, 0, 60)
    assert np.array_equal(expected, compute(backend, B, 60, tokens[60:]))


def test_cut_cells_can_be_used_again(backend: LlamaBackend) -> None:
    tokens = tokens_of(backend, TEXT)[:64]
    for _ in range(2 * backend.num_cells // len(tokens)):
        compute(backend, A, 0, tokens)
        backend.cut(A, 0, len(tokens))


def test_no_room_is_said_and_nothing_is_written(backend: LlamaBackend) -> None:
    tokens = (tokens_of(backend, TEXT) * 4)[:256]
    for i in range(backend.num_cells // 256):
        compute(backend, SeqId(i), 0, tokens)
    extra = BatchPlan((BatchSlice(A, 256, tuple(tokens[:1]), True),))
    assert backend.decode(extra) is DecodeStatus.NO_SPACE
    backend.cut(B, 0, 256)
    assert backend.decode(extra) is DecodeStatus.DONE


def test_a_tail_comes_back_from_its_copy_as_it_was(backend: LlamaBackend) -> None:
    tokens = tokens_of(backend, TEXT)[:80]
    compute(backend, A, 0, tokens[:60])
    expected = compute(backend, A, 60, tokens[60:])
    backend.cut(A, 60, 80)
    blob = backend.save(A, 20, 60)
    backend.share(A, B, 0, 20)
    backend.cut(A, 0, 60)
    assert backend.load(blob, B, 20, 60)
    assert np.array_equal(expected, compute(backend, B, 60, tokens[60:]))


def test_a_part_of_a_copy_is_enough(backend: LlamaBackend) -> None:
    tokens = tokens_of(backend, TEXT)[:80]
    compute(backend, A, 0, tokens[:60])
    blob = backend.save(A, 0, 60)
    backend.cut(A, 30, 60)
    expected = compute(backend, A, 30, tokens[60:])
    backend.cut(A, 0, 50)
    assert backend.load(blob, B, 0, 30)
    assert np.array_equal(expected, compute(backend, B, 30, tokens[60:]))


def test_a_copy_that_has_no_room_or_is_damaged_changes_nothing(backend: LlamaBackend) -> None:
    tokens = (tokens_of(backend, TEXT) * 4)[:256]
    compute(backend, A, 0, tokens)
    blob = backend.save(A, 0, 256)
    assert not backend.load(blob[: len(blob) // 2], B, 0, 256)
    compute(backend, B, 0, tokens)
    assert not backend.load(blob, C, 0, 256)
    backend.cut(B, 0, 256)
    assert backend.load(blob, C, 0, 256)


def sampled(backend: LlamaBackend, params: SamplingParams, tokens: list[Token]) -> Token:
    compute(backend, C, 0, tokens)
    backend.attach(C, params, tokens)
    token = backend.sample(C)
    backend.detach(C)
    backend.cut(C, 0, len(tokens))
    return token


def test_a_seed_fixes_the_draw_and_no_seed_leaves_it_free(backend: LlamaBackend) -> None:
    tokens = tokens_of(backend, "My favourite")
    hot = SamplingParams(temperature=3.0, top_k=0, top_p=1.0, min_p=0.0)
    seeded = replace(hot, seed=7)
    assert len({sampled(backend, seeded, tokens) for _ in range(3)}) == 1
    # Thousands of tokens are likely at this temperature: five equal draws are a 10^-12 chance.
    assert len({sampled(backend, hot, tokens) for _ in range(5)}) > 1
    assert len({sampled(backend, replace(hot, seed=s), tokens) for s in range(5)}) > 1


def test_temperature_zero_takes_the_likeliest_token(backend: LlamaBackend) -> None:
    tokens = tokens_of(backend, "The capital of France is")
    likeliest = int(compute(backend, A, 0, tokens).argmax())
    assert sampled(backend, SamplingParams(temperature=0), tokens) == likeliest


def test_a_logit_bias_decides(backend: LlamaBackend) -> None:
    params = SamplingParams(temperature=0, logit_bias=((Token(1234), 100.0),))
    assert sampled(backend, params, tokens_of(backend, "The")) == 1234


def test_a_repeat_penalty_looks_back_on_the_prompt(backend: LlamaBackend) -> None:
    tokens = tokens_of(backend, "one two one two one two one two one")
    plain = sampled(backend, SamplingParams(temperature=0), tokens)
    punished = sampled(backend, SamplingParams(temperature=0, repeat_penalty=100.0), tokens)
    assert plain in tokens
    assert punished not in tokens
