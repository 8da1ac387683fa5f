"""Vectors of texts on real models, from a context beside the answers'."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from llama_cpp import llama_cpp as api
from msgspec.structs import replace

from edgekv.core.plan import Opening
from edgekv.core.request import Segment, Token
from edgekv.errors import InvalidValue, Unavailable
from edgekv.llama.backend import LlamaBackend, LlamaLibrary
from edgekv.llama.embedding import PART, EmbeddingContext, _open
from edgekv.service.own_command import own_command
from tests.llama.test_backend import CHOICE, TEXT, A, compute, tokens_of

pytestmark = pytest.mark.llama

CELLS = 64


@pytest.fixture(scope="module")
def library() -> LlamaLibrary:
    return LlamaLibrary(own_command("grammar"))


@pytest.fixture(scope="module", params=["starter_model", "gemma_model"])
def backend(library: LlamaLibrary, request: pytest.FixtureRequest) -> Iterator[LlamaBackend]:
    path: Path = request.getfixturevalue(request.param)
    opening = Opening(str(path), replace(CHOICE, embedding_cells=CELLS))
    opened, _, _ = library.open(opening, lambda _: None)
    assert isinstance(opened, LlamaBackend)
    yield opened
    opened.close()


def vector(backend: LlamaBackend, text: str) -> tuple[float, ...]:
    return backend.embed(backend._model.vocabulary.tokenize([Segment(text, False)]))


def likeness(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def test_a_vector_has_length_one_and_depends_on_the_text_alone(backend: LlamaBackend) -> None:
    first = vector(backend, "The cat sleeps.")
    assert math.hypot(*first) == pytest.approx(1)
    other = vector(backend, "Quarterly interest rates rose again.")
    assert first != other
    assert vector(backend, "The cat sleeps.") == first


def test_like_texts_have_like_vectors(backend: LlamaBackend) -> None:
    cat = vector(backend, "The cat sleeps on the sofa.")
    kitten = vector(backend, "The kitten sleeps on the couch.")
    rates = vector(backend, "Quarterly interest rates rose again in March 2020.")
    assert likeness(cat, kitten) > likeness(cat, rates)


def test_a_text_in_parts_has_the_vector_that_the_library_finds(
    library: LlamaLibrary, backend: LlamaBackend
) -> None:
    tokens = tokens_of(backend, TEXT)[:CELLS]
    assert len(tokens) > PART
    whole = EmbeddingContext(
        backend._model.handle, replace(CHOICE, embedding_cells=CELLS), library._log
    )
    whole.close()
    whole.handle = _open(
        backend._model.handle,
        replace(CHOICE, embedding_cells=CELLS),
        api.LLAMA_POOLING_TYPE_MEAN,
        CELLS,
    )
    expected = whole._whole(tokens)
    whole.close()
    expected /= np.linalg.norm(expected)
    # Not 1: the shape of a batch moves the last digits.
    assert likeness(backend.embed(tokens), tuple(expected)) > 0.999


def test_answers_do_not_notice(backend: LlamaBackend) -> None:
    tokens = tokens_of(backend, TEXT)[:20]
    before = compute(backend, A, 0, tokens)
    backend.cut(A, 0, len(tokens))
    vector(backend, "Something else entirely.")
    after = compute(backend, A, 0, tokens)
    backend.cut(A, 0, len(tokens))
    assert (before == after).all()


def test_nothing_and_too_much_never_reach_the_library(backend: LlamaBackend) -> None:
    with pytest.raises(InvalidValue, match="nothing to embed"):
        backend.embed([])
    longest = [Token(100)] * CELLS
    assert math.hypot(*backend.embed(longest)) == pytest.approx(1)
    with pytest.raises(InvalidValue, match=rf"{CELLS + 1} tokens .* {CELLS};"):
        backend.embed([*longest, Token(100)])


def test_without_cells_for_it_nothing_is_embedded(
    library: LlamaLibrary, starter_model: Path
) -> None:
    opened, _, _ = library.open(Opening(str(starter_model), CHOICE), lambda _: None)
    with pytest.raises(Unavailable, match="No memory was planned"):
        opened.embed([Token(1)])
    opened.close()
