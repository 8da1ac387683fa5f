"""A context of its own for vectors of texts. It holds one text at a time."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
from llama_cpp import llama_cpp as api
from numpy.typing import NDArray

from edgekv.core.plan import EMBEDDING_PART, BufferSize, Choice
from edgekv.core.request import Token
from edgekv.errors import InvalidValue, Unavailable
from edgekv.llama import allocation
from edgekv.llama.library import LogRecorder

PART = EMBEDDING_PART

_UNSPECIFIED, _NONE = api.LLAMA_POOLING_TYPE_UNSPECIFIED, api.LLAMA_POOLING_TYPE_NONE
_MEAN, _FIRST = api.LLAMA_POOLING_TYPE_MEAN, api.LLAMA_POOLING_TYPE_CLS
_LAST, _RANK = api.LLAMA_POOLING_TYPE_LAST, api.LLAMA_POOLING_TYPE_RANK


class EmbeddingContext:
    """Pools as the model says, and takes the mean of all tokens where it says nothing.

    A model that reads from left to right computes a text part by part, and what its tokens gave is
    pooled here. One that sees a text as a whole, which has no KV cells, is pooled by the library.
    """

    def __init__(self, model: int, choice: Choice, log: LogRecorder) -> None:
        """Raises `Unavailable` if the model gives no vectors or there is no memory for them."""
        self._num_cells = choice.embedding_cells
        self._length: int = api.llama_model_n_embd_out(model)
        self.handle = _open(model, choice, _UNSPECIFIED, PART)
        pooling = api.llama_pooling_type(self.handle)
        self._pooling = _MEAN if pooling == _NONE else pooling
        self._memory = api.llama_get_memory(self.handle)
        self.close()
        if self._pooling == _RANK:
            raise Unavailable("This model ranks texts and gives no vectors; load another one.")
        self._part = PART if self._memory else self._num_cells
        # The buffer for what is computed grows to this with the first whole part.
        words_and_vector = api.llama_vocab_n_tokens(api.llama_model_get_vocab(model)) + self._length
        self._output_bytes = self._part * words_and_vector * 4
        with log.recording() as self._load_log:
            pooling = _NONE if self._memory else self._pooling
            self.handle = _open(model, choice, pooling, self._part)
        self._memory = api.llama_get_memory(self.handle)

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

    def buffers(self) -> tuple[BufferSize, ...]:
        """What this context takes once a whole part was computed, by device."""
        formulas = allocation.Formulas(self._output_bytes)
        own = allocation.simulated(self.handle, self._load_log, formulas, weight_bytes=0)
        return allocation.of_embeddings(own, output_bytes=self._output_bytes)

    def close(self) -> None:
        api.llama_free(self.handle)

    def _pooled(self, tokens: Sequence[Token]) -> NDArray[np.float64]:
        api.llama_memory_clear(self._memory, True)
        total: NDArray[np.float64] = np.zeros(self._length)
        for start in range(0, len(tokens), self._part):
            rows = self._part_of(tokens[start : start + self._part])
            if self._pooling == _FIRST and start == 0:
                total = rows[0]
                break
            total = rows[-1] if self._pooling == _LAST else total + rows.sum(axis=0)
        return total / len(tokens) if self._pooling == _MEAN else total

    def _part_of(self, tokens: Sequence[Token]) -> NDArray[np.float64]:
        """A row for each token."""
        self._decode(tokens)
        pointer = api.llama_get_embeddings(self.handle)
        rows = np.ctypeslib.as_array(pointer, (len(tokens), self._length))
        return rows.astype(np.float64)

    def _whole(self, tokens: Sequence[Token]) -> NDArray[np.float64]:
        self._decode(tokens)
        pointer = api.llama_get_embeddings_seq(self.handle, 0)
        return np.ctypeslib.as_array(pointer, (self._length,)).astype(np.float64)

    def _decode(self, tokens: Sequence[Token]) -> None:
        ids = (api.llama_token * len(tokens))(*tokens)
        batch = api.llama_batch_get_one(ids, len(tokens))
        # Every token has its part in the vector.
        batch.logits = (ctypes.c_int8 * len(tokens))(*[1] * len(tokens))
        code = api.llama_decode(self.handle, batch)
        if code != 0:
            raise Unavailable(f"llama.cpp could not embed this text (code {code}).")


def _open(model: int, choice: Choice, pooling: int, part: int) -> int:
    params = api.llama_context_default_params()
    params.n_ctx = choice.embedding_cells
    params.n_batch = params.n_ubatch = part
    params.n_seq_max = 1
    # A text is computed from left to right and never cut, so windows need not be whole.
    params.swa_full = False
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
