"""A context with one unified pool of KV cells: share, cut, decode."""

from __future__ import annotations

import ctypes

import numpy as np
from llama_cpp import llama_cpp as api

from edgekv.budget.formulas import output_bytes
from edgekv.core.batch import BatchPlan, DecodeStatus
from edgekv.core.plan import Opening
from edgekv.core.request import SeqId
from edgekv.errors import ModelError, UnsupportedOption
from edgekv.llama.library import LogRecorder

KV_TYPES: dict[str, int] = {
    "f32": api.GGML_TYPE_F32,
    "f16": api.GGML_TYPE_F16,
    "bf16": 30,  # GGML_TYPE_BF16, which the bindings do not name
    "q8_0": api.GGML_TYPE_Q8_0,
    "q5_1": api.GGML_TYPE_Q5_1,
    "q5_0": api.GGML_TYPE_Q5_0,
    "q4_1": api.GGML_TYPE_Q4_1,
    "q4_0": api.GGML_TYPE_Q4_0,
    "iq4_nl": api.GGML_TYPE_IQ4_NL,
    "mxfp4": api.GGML_TYPE_MXFP4,
    "q2_0": api.GGML_TYPE_Q2_0,
}

_NO_FLAGS = api.LLAMA_STATE_SEQ_FLAGS_NONE

_STATUS = {0: DecodeStatus.DONE, 1: DecodeStatus.NO_SPACE}


class LlamaContext:
    """A `llama_context` opened as an `Opening` says.

    `output_rows` maps each sequence id that wanted logits in the last decode to its row.
    """

    def __init__(self, model: int, opening: Opening, log: LogRecorder) -> None:
        choice = opening.choice
        self.handle = api.llama_init_from_model(model, _params(opening))
        if not self.handle:
            raise ModelError(
                f"llama.cpp cannot open a context of {choice.cells} cells "
                f"({log.last_error()}); try a smaller --ctx or fewer --slots."
            )
        num_vocab = api.llama_vocab_n_tokens(api.llama_model_get_vocab(model))
        self.output_bytes = output_bytes(num_vocab, choice.num_ids)
        """Of the buffer for logits."""
        self._memory = api.llama_get_memory(self.handle)
        self._batch = _Batch(choice.batch)
        self.num_cells: int = api.llama_n_ctx(self.handle)
        self.num_seqs = choice.num_seqs
        self._scratch = SeqId(choice.num_seqs)
        self.output_rows: dict[SeqId, int] = {}

    def share(self, source: SeqId, target: SeqId, start: int, end: int) -> None:
        api.llama_memory_seq_cp(self._memory, source, target, start, end)

    def cut(self, seq_id: SeqId, start: int, end: int) -> None:
        removed = api.llama_memory_seq_rm(self._memory, seq_id, start, end)
        assert removed, "partial cuts are only asked of models that can (Opening.share_prefixes)"

    def decode(self, plan: BatchPlan) -> DecodeStatus:
        self.output_rows = self._batch.fill(plan)
        code = api.llama_decode(self.handle, self._batch.struct)
        return _STATUS.get(code, DecodeStatus.FAILED)

    def save(self, seq_id: SeqId, start: int, end: int) -> bytes:
        # The library saves whole sequences, so the range becomes one for a moment.
        self.share(seq_id, self._scratch, start, end)
        size = api.llama_state_seq_get_size_ext(self.handle, self._scratch, _NO_FLAGS)
        buffer = (ctypes.c_uint8 * size)()
        written = api.llama_state_seq_get_data_ext(
            self.handle, buffer, size, self._scratch, _NO_FLAGS
        )
        self._drop_scratch()
        assert written == size, "the size was the library's own"
        return bytes(buffer)

    def load(self, blob: bytes, seq_id: SeqId, start: int, end: int) -> bool:
        buffer = (ctypes.c_uint8 * len(blob)).from_buffer_copy(blob)
        read = api.llama_state_seq_set_data_ext(
            self.handle, buffer, len(blob), self._scratch, _NO_FLAGS
        )
        if read == len(blob):
            self.share(self._scratch, seq_id, start, end)
        self._drop_scratch()
        return bool(read == len(blob))

    def _drop_scratch(self) -> None:
        api.llama_memory_seq_rm(self._memory, self._scratch, -1, -1)

    def close(self) -> None:
        api.llama_free(self.handle)


class _Batch:
    """llama.cpp's batch arrays, allocated once and filled through numpy.

    Row i of every array describes one token. `seq_id` is an array of pointers, each to a list
    of ids; ours point into `seq_ids`, one id a token.
    """

    def __init__(self, capacity: int) -> None:
        self.tokens = np.zeros(capacity, np.int32)
        self.positions = np.zeros(capacity, np.int32)
        self.seq_ids = np.zeros(capacity, np.int32)
        self.wants_logits = np.zeros(capacity, np.int8)
        self._counts = np.ones(capacity, np.int32)
        first, stride = self.seq_ids.ctypes.data, self.seq_ids.itemsize
        self._pointers = (first + stride * np.arange(capacity)).astype(np.uint64)
        self.struct = api.llama_batch()
        for field, array in (
            ("token", self.tokens),
            ("pos", self.positions),
            ("n_seq_id", self._counts),
            ("seq_id", self._pointers),
            ("logits", self.wants_logits),
        ):
            pointer_type = dict(api.llama_batch._fields_)[field]
            setattr(self.struct, field, array.ctypes.data_as(pointer_type))

    def fill(self, plan: BatchPlan) -> dict[SeqId, int]:
        """Write a plan's tokens; returns the row of each sequence id that wants logits."""
        rows: dict[SeqId, int] = {}
        end = 0
        for piece in plan.slices:
            start, end = end, end + len(piece.tokens)
            self.tokens[start:end] = piece.tokens
            self.positions[start:end] = np.arange(piece.start, piece.start + end - start)
            self.seq_ids[start:end] = piece.seq_id
            self.wants_logits[start:end] = 0
            if piece.wants_logits:
                self.wants_logits[end - 1] = 1
                rows[piece.seq_id] = end - 1
        self.struct.n_tokens = end
        return rows


def _params(opening: Opening) -> api.llama_context_params:
    choice = opening.choice
    params = api.llama_context_default_params()
    params.n_ctx = choice.cells
    params.n_batch = choice.batch
    params.n_ubatch = choice.ubatch
    params.n_seq_max = choice.num_ids
    # One row of logits a sequence id, instead of one a token of the batch.
    params.n_outputs_max = choice.num_ids
    params.n_threads = params.n_threads_batch = choice.threads
    params.type_k, params.type_v = kv_type(choice.kv_type_k), kv_type(choice.kv_type_v)
    params.flash_attn_type = (
        api.LLAMA_FLASH_ATTN_TYPE_ENABLED
        if choice.flash_attention
        else api.LLAMA_FLASH_ATTN_TYPE_DISABLED
    )
    params.swa_full = choice.swa_full
    # Without a unified pool a partial `seq_cp` aborts the process.
    params.kv_unified = True
    params.no_perf = True
    return params


def kv_type(name: str) -> int:
    """ggml's number for a KV type. Raises `UnsupportedOption` for a name it cannot store."""
    if name not in KV_TYPES:
        raise UnsupportedOption(f"KV type {name}", f"use one of {', '.join(KV_TYPES)}")
    return KV_TYPES[name]
