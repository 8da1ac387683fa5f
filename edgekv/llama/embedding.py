"""A context of its own for vectors of texts. It holds one text at a time."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
from llama_cpp import llama_cpp as api
from numpy.typing import NDArray

from edgekv.core.plan import Choice
from edgekv.core.request import Token
from edgekv.errors import InvalidValue, Unavailable

PART = 32
"""Tokens computed at once by a model that could also write. The library reserves logits for each
of them, vocabulary x 4 bytes, although nobody wants them: 512 would take gemma-3-270m 515 MiB.
"""

_UNSPECIFIED, _NONE = api.LLAMA_POOLING_TYPE_UNSPECIFIED, api.LLAMA_POOLING_TYPE_NONE
_MEAN, _FIRST = api.LLAMA_POOLING_TYPE_MEAN, api.LLAMA_POOLING_TYPE_CLS
_LAST, _RANK = api.LLAMA_POOLING_TYPE_LAST, api.LLAMA_POOLING_TYPE_RANK


class EmbeddingContext:
    """Pools as the model says, and takes the mean of all tokens where it says nothing.

    A model that reads from left to right computes a text part by part, and what its tokens gave is
    pooled here. One that sees a text as a whole, which has no KV cells, is pooled by the library.
    """

    def __init__(self, model: int, choice: Choice) -> None:
        """Raises `Unavailable` if the model gives no vectors or there is no memory for them."""
        self._num_cells = choice.embedding_cells
        self._length: int = api.llama_model_n_embd_out(model)
        self._handle = _open(model, choice, _UNSPECIFIED, PART)
        pooling = api.llama_pooling_type(self._handle)
        self._pooling = _MEAN if pooling == _NONE else pooling
        self._memory = api.llama_get_memory(self._handle)
        self.close()
        if self._pooling == _RANK:
            raise Unavailable("This model ranks texts and gives no vectors; load another one.")
        self._part = PART if self._memory else self._num_cells
        self._handle = _open(model, choice, _NONE if self._memory else self._pooling, self._part)
        self._memory = api.llama_get_memory(self._handle)

    def embed(self, tokens: Sequence[Token]) -> tuple[float, ...]:
        """A vector of length 1. Raises `InvalidValue` for no tokens or too many."""
        # The library writes outside its memory when it is given nothing.
        if not tokens:
            raise InvalidValue("input", "There is nothing to embed; send at least one token.")
        if len(tokens) > self._num_cells:
            raise InvalidValue(
                "input",
                f"The text has {len(tokens)} tokens but one to embed may have {self._num_cells}; "
                "divide it.",
            )
        vector = self._pooled(tokens) if self._memory else self._whole(tokens)
        length = float(np.linalg.norm(vector))
        return tuple((vector / length).tolist() if length else vector.tolist())

    def close(self) -> None:
        api.llama_free(self._handle)

    def _pooled(self, tokens: Sequence[Token]) -> NDArray[np.float64]:
        api.llama_memory_clear(self._memory, True)
        of_tokens = np.concatenate(
            [self._part_of(tokens[i : i + self._part]) for i in range(0, len(tokens), self._part)]
        )
        if self._pooling == _FIRST:
            of_tokens = of_tokens[:1]
        elif self._pooling == _LAST:
            of_tokens = of_tokens[-1:]
        mean: NDArray[np.float64] = of_tokens.mean(axis=0)
        return mean

    def _part_of(self, tokens: Sequence[Token]) -> NDArray[np.float64]:
        """A row for each token."""
        self._decode(tokens)
        pointer = api.llama_get_embeddings(self._handle)
        rows = np.ctypeslib.as_array(pointer, (len(tokens), self._length))
        return rows.astype(np.float64)

    def _whole(self, tokens: Sequence[Token]) -> NDArray[np.float64]:
        self._decode(tokens)
        pointer = api.llama_get_embeddings_seq(self._handle, 0)
        return np.ctypeslib.as_array(pointer, (self._length,)).astype(np.float64)

    def _decode(self, tokens: Sequence[Token]) -> None:
        ids = (api.llama_token * len(tokens))(*tokens)
        batch = api.llama_batch_get_one(ids, len(tokens))
        # Every token has its part in the vector.
        batch.logits = (ctypes.c_int8 * len(tokens))(*[1] * len(tokens))
        code = api.llama_decode(self._handle, batch)
        if code != 0:
            raise Unavailable(f"llama.cpp could not embed this text (code {code}).")


def _open(model: int, choice: Choice, pooling: int, part: int) -> int:
    params = api.llama_context_default_params()
    params.n_ctx = choice.embedding_cells
    params.n_batch = params.n_ubatch = part
    params.n_seq_max = 1
    params.embeddings = True
    params.pooling_type = pooling
    params.n_threads = params.n_threads_batch = choice.threads
    params.no_perf = True
    handle: int = api.llama_init_from_model(model, params)
    if not handle:
        raise Unavailable(
            f"There is no memory for a context that embeds {choice.embedding_cells} tokens; "
            "ask for a smaller one."
        )
    return handle
