"""What tensors take, against ggml itself."""

from __future__ import annotations

import ctypes

import pytest

from edgekv.llama.library import lib
from edgekv.models.tensor_types import tensor_bytes


@pytest.mark.parametrize("kind", range(43))
def test_a_tensor_takes_what_ggml_gives_it(kind: int) -> None:
    lib.ggml_blck_size.restype, lib.ggml_type_size.restype = ctypes.c_int64, ctypes.c_size_t
    elements, size = lib.ggml_blck_size(kind), lib.ggml_type_size(kind)
    expected = 3 * size if elements else None
    assert tensor_bytes(kind, (max(1, elements), 3)) == expected


def test_a_type_that_is_newer_than_the_table_is_not_guessed() -> None:
    assert tensor_bytes(1000, (32, 3)) is None
