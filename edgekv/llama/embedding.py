"""A context of its own for vectors of texts. It holds one text at a time."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
from llama_cpp import llama_cpp as api

from edgekv.core.plan import Choice
from edgekv.core.request import Token
from edgekv.errors import InvalidValue, Unavailable

_SEQ_ID = 0


class EmbeddingContext:
    """Pools as the model says, and takes the mean of all tokens where it says nothing."""

    def __init__(self, model: int, choice: Choice) -> None:
        """Raises `Unavailable` if the model gives no vectors or there is no memory for them."""
        self._num_cells = choice.embedding_cells
        self._handle = _open(model, choice, api.LLAMA_POOLING_TYPE_UNSPECIFIED)
        if api.llama_pooling_type(self._handle) == api.LLAMA_POOLING_TYPE_NONE:
            api.llama_free(self._handle)
            self._handle = _open(model, choice, api.LLAMA_POOLING_TYPE_MEAN)
        if api.llama_pooling_type(self._handle) == api.LLAMA_POOLING_TYPE_RANK:
            api.llama_free(self._handle)
            raise Unavailable("This model ranks texts and gives no vectors; load another one.")
        self._length: int = api.llama_model_n_embd_out(model)
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
        if self._memory:
            api.llama_memory_clear(self._memory, True)
        ids = (api.llama_token * len(tokens))(*tokens)
        batch = api.llama_batch_get_one(ids, len(tokens))
        # Every token has its part in the vector.
        batch.logits = (ctypes.c_int8 * len(tokens))(*[1] * len(tokens))
        code = api.llama_decode(self._handle, batch)
        pointer = api.llama_get_embeddings_seq(self._handle, _SEQ_ID) if code == 0 else None
        if not pointer:
            raise Unavailable(f"llama.cpp could not embed this text (code {code}).")
        vector = np.ctypeslib.as_array(pointer, (self._length,)).astype(np.float64)
        length = float(np.linalg.norm(vector))
        return tuple((vector / length).tolist() if length else vector.tolist())

    def close(self) -> None:
        api.llama_free(self._handle)


def _open(model: int, choice: Choice, pooling: int) -> int:
    params = api.llama_context_default_params()
    # A text is pooled inside one ubatch, so all of it must fit into one.
    params.n_ctx = params.n_batch = params.n_ubatch = choice.embedding_cells
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
