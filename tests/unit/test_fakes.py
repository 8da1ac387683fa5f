"""The strict fake must really be strict: each rule of llama.cpp, broken once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edgekv.core.batch import BatchPlan, BatchSlice, DecodeStatus
from edgekv.core.plan import Choice, Opening
from edgekv.core.request import SamplingParams, Segment, SeqId, Token
from edgekv.errors import ModelError
from tests.cell_backend import CellBackend
from tests.fakes import BOS, IM_END, IM_START, FakeLibrary, FakeVocabulary

A, B = SeqId(0), SeqId(1)


def write(backend: CellBackend, seq_id: SeqId, start: int, *numbers: int) -> DecodeStatus:
    tokens = tuple(Token(n) for n in numbers)
    return backend.decode(BatchPlan((BatchSlice(seq_id, start, tokens, True),)))


def filled() -> CellBackend:
    """`A` sees 1 2 3 of 8 cells, `B` nothing."""
    backend = CellBackend(num_cells=8, num_seqs=2, batch_tokens=6)
    write(backend, A, 0, 1, 2, 3)
    return backend


def share_then_share(backend: CellBackend) -> None:
    backend.share(A, B, 0, 2)
    backend.share(A, B, 1, 3)


def attach_twice(backend: CellBackend) -> None:
    for _ in range(2):
        backend.attach(A, SamplingParams(), [])


def hole(backend: CellBackend) -> None:
    backend.cut(A, 1, 2)
    backend.visible(A)


def stale_sampler(backend: CellBackend) -> None:
    backend.attach(A, SamplingParams(), [Token(1), Token(2)])
    backend.sample(A)


def same_sequence_twice(backend: CellBackend) -> None:
    piece = BatchSlice(B, 0, (Token(1),), False)
    backend.decode(BatchPlan((piece, piece)))


@pytest.mark.parametrize(
    "misuse",
    [
        lambda b: write(b, A, 4, 9),
        lambda b: write(b, A, 2, 9),
        lambda b: write(b, B, 0, 1, 2, 3, 4, 5, 6, 7),
        lambda b: b.decode(BatchPlan(())),
        lambda b: b.share(A, A, 0, 1),
        lambda b: b.cut(A, 2, 2),
        lambda b: b.sample(B),
        lambda b: b.save(A, 1, 4),
        lambda b: b.load(b.save(A, 1, 3), B, 0, 2),
        same_sequence_twice,
        share_then_share,
        attach_twice,
        hole,
        stale_sampler,
    ],
)
def test_what_llama_cpp_forbids_is_an_assertion(misuse: Callable[[CellBackend], object]) -> None:
    with pytest.raises(AssertionError):
        misuse(filled())


def test_cells_that_are_not_there_cannot_be_shared() -> None:
    with pytest.raises(KeyError):
        filled().share(A, B, 0, 4)


def test_a_batch_that_does_not_fit_writes_nothing() -> None:
    backend = filled()
    assert write(backend, B, 0, 1, 2, 3, 4, 5, 6) is DecodeStatus.NO_SPACE
    assert backend.visible(B) == []


def test_a_failed_decode_leaves_a_part_behind() -> None:
    backend = filled()
    backend.outcomes = {1: DecodeStatus.FAILED}
    assert write(backend, B, 0, 1, 2, 3, 4) is DecodeStatus.FAILED
    assert backend.visible(B) == [1, 2]


def test_a_shared_cell_outlives_the_one_that_computed_it() -> None:
    backend = filled()
    backend.share(A, B, 0, 2)
    backend.cut(A, 0, 3)
    assert backend.visible(B) == [1, 2]
    assert len(backend.cells()) == 2


def test_saved_cells_come_back_as_new_ones() -> None:
    backend = filled()
    blob = backend.save(A, 1, 3)
    backend.share(A, B, 0, 2)
    assert backend.load(blob, B, 2, 3)
    assert backend.visible(B) == [1, 2, 3]
    assert len(backend.cells()) == 4


def test_a_blob_that_does_not_fit_or_is_not_ours_changes_nothing() -> None:
    backend = filled()
    blob = backend.save(A, 0, 3)
    write(backend, A, 3, 4, 5, 6)
    assert not backend.load(blob, B, 0, 3)
    assert not backend.load(b"something else", B, 0, 1)
    assert not backend.load(blob[:-1], B, 0, 3)
    assert backend.visible(B) == []


def opening(path: str = "fake.gguf") -> Opening:
    choice = Choice(
        context_length=256,
        slots=2,
        cells=512,
        kv_type_k="f16",
        kv_type_v="f16",
        gpu_layers=0,
        batch=64,
        ubatch=64,
        swa_full=True,
        flash_attention=False,
        kept=1,
    )
    return Opening(path, choice)


def test_a_fake_model_opens_as_its_dry_run_said() -> None:
    library, heard = FakeLibrary(), list[float]()
    backend, vocabulary, allocation = library.open(opening(), heard.append)
    assert allocation == library.dry_run(opening())
    assert (backend.num_cells, backend.num_seqs) == (512, 3)
    assert heard[0] == 0
    assert heard[-1] == 1
    assert vocabulary.num_tokens == library.describe("fake.gguf").num_vocab


def test_a_missing_model_is_refused_by_every_door() -> None:
    library = FakeLibrary(missing={"gone.gguf"})
    with pytest.raises(ModelError):
        library.describe("gone.gguf")
    with pytest.raises(ModelError):
        library.dry_run(opening("gone.gguf"))
    with pytest.raises(ModelError):
        library.open(opening("gone.gguf"), lambda _: None)


def test_control_tokens_come_only_from_control_text() -> None:
    prompt = [Segment("<|im_start|>é", control=True), Segment("<|im_end|>", control=False)]
    tokens = FakeVocabulary().tokenize(prompt)
    assert tokens[:4] == [BOS, IM_START, *"é".encode()]
    assert IM_END not in tokens


def test_a_scripted_model_says_its_line_and_ends() -> None:
    backend, vocabulary, _ = FakeLibrary(answer="no").open(opening(), lambda _: None)
    prompt = vocabulary.tokenize([Segment("yes?", control=False)])
    backend.attach(A, SamplingParams(), prompt)
    said: list[Token] = []
    while IM_END not in said:
        write(backend, A, len(backend.visible(A)), *(said[-1:] or prompt))
        said.append(backend.sample(A))
    assert b"".join(map(vocabulary.piece, said)) == b"no"
