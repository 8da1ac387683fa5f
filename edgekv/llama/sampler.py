"""`SamplingParams` → one sampler chain a sequence.

The random draw is keyed by seed and position, so a sequence that is rebuilt from its tokens
goes on exactly where its random stream was.
"""

from __future__ import annotations

import ctypes
import secrets
from collections.abc import Sequence

import numpy as np
from llama_cpp import llama_cpp as api
from numpy.typing import NDArray

from edgekv.core.request import SamplingParams, Token
from edgekv.llama.grammar import Constraint, Mask

PENALTY_WINDOW = 64
"""Tokens that the penalties look back on; llama.cpp's own default."""

FEW = 16
"""A mask that leaves less than one in so many tokens is applied by leaving the others out."""

_64_BITS = (1 << 64) - 1
_ANOTHER_SEED = 0xD1342543DE82EF95
"""Odd, so that no two seeds of 64 bits fall together."""

_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
"""`llama_token_data`."""


class SamplerChain:
    """A `llama_sampler` chain that has seen a number of tokens."""

    def __init__(
        self,
        params: SamplingParams,
        num_vocab: int,
        tokens: Sequence[Token],
        constraint: Constraint | None = None,
    ) -> None:
        """`constraint` has seen those of `tokens` that are part of the answer."""
        self._constraint, self._num_vocab = constraint, num_vocab
        self._handle = api.llama_sampler_chain_init(api.llama_sampler_chain_default_params())
        self._position = len(tokens)
        self._seed = secrets.randbits(32) if params.seed is None else params.seed
        self._num_fixed = 0
        self._is_greedy = params.temperature == 0
        self._add_adjustments(params, num_vocab, tokens)
        if self._is_greedy:
            self._add(api.llama_sampler_init_greedy())
        else:
            self._add_filters(params)

    def sample(self, context: int, row: int) -> Token:
        """The next token from the logits in `row` of the last decode, which a constraint changes.

        Raises `InvalidValue` if the constraint cannot be followed any further.
        """
        if not self._is_greedy:
            self._renew_draw()
        self._position += 1
        if self._constraint is None:
            return Token(api.llama_sampler_sample(self._handle, context, row))
        token = self._sample_allowed(self._constraint.allowed(), context, row)
        self._constraint.accept(token)
        return token

    @property
    def is_complete(self) -> bool:
        """Whether the constraint leaves nothing but the end."""
        return self._constraint is not None and self._constraint.is_complete

    def close(self) -> None:
        api.llama_sampler_free(self._handle)

    def _sample_allowed(self, allowed: Mask, context: int, row: int) -> Token:
        logits = logits_of(context, row, self._num_vocab)
        if np.count_nonzero(allowed) * FEW < self._num_vocab:
            return self._choose_among(np.flatnonzero(allowed), logits)
        logits[~allowed] = -np.inf
        return Token(api.llama_sampler_sample(self._handle, context, row))

    def _choose_among(self, ids: NDArray[np.int64], logits: NDArray[np.float32]) -> Token:
        candidates = np.zeros(len(ids), _CANDIDATE)
        candidates["id"], candidates["logit"] = ids, logits[ids]
        first = candidates.ctypes.data_as(ctypes.POINTER(api.llama_token_data))
        array = api.llama_token_data_array(first, len(ids), -1, False)
        api.llama_sampler_apply(self._handle, ctypes.byref(array))
        # The samplers sort and shorten the array in place.
        token = Token(array.data[array.selected].id)
        api.llama_sampler_accept(self._handle, token)
        return token

    def _add(self, sampler: int) -> None:
        api.llama_sampler_chain_add(self._handle, sampler)
        self._num_fixed += 1

    def _add_adjustments(
        self, params: SamplingParams, num_vocab: int, tokens: Sequence[Token]
    ) -> None:
        if params.logit_bias:
            biases = (api.llama_logit_bias * len(params.logit_bias))(*params.logit_bias)
            self._add(api.llama_sampler_init_logit_bias(num_vocab, len(biases), biases))
        repeat, frequency = params.repeat_penalty, params.frequency_penalty
        if (repeat, frequency, params.presence_penalty) != (1.0, 0.0, 0.0):
            penalties = api.llama_sampler_init_penalties(
                num_vocab, PENALTY_WINDOW, repeat, frequency, params.presence_penalty
            )
            for token in tokens[-PENALTY_WINDOW:]:
                api.llama_sampler_accept(penalties, token)
            self._add(penalties)

    def _add_filters(self, params: SamplingParams) -> None:
        if params.top_k > 0:
            self._add(api.llama_sampler_init_top_k(params.top_k))
        if params.top_p < 1:
            self._add(api.llama_sampler_init_top_p(params.top_p, 1))
        if params.min_p > 0:
            self._add(api.llama_sampler_init_min_p(params.min_p, 1))
        self._add(api.llama_sampler_init_temp(params.temperature))

    def _renew_draw(self) -> None:
        if api.llama_sampler_chain_n(self._handle) > self._num_fixed:
            old = api.llama_sampler_chain_remove(self._handle, self._num_fixed)
            api.llama_sampler_free(old)
        draw = api.llama_sampler_init_dist(stream_seed(self._seed, self._position))
        api.llama_sampler_chain_add(self._handle, draw)


def stream_seed(seed: int, position: int) -> int:
    """A 32-bit seed that differs between neighbouring positions and between seeds."""
    # SplitMix64 (Steele, Lea, Flood 2014): its step, then its mixing of the bits.
    mixed = (seed * _ANOTHER_SEED + (position + 1) * 0x9E3779B97F4A7C15) & _64_BITS
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & _64_BITS
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & _64_BITS
    # The largest value asks llama.cpp for a random seed.
    return min(mixed >> 32, 0xFFFFFFFE)


def logits_of(context: int, row: int, num_vocab: int) -> NDArray[np.float32]:
    """The library's own memory for a row of the last decode, not a copy."""
    pointer = api.llama_get_logits_ith(context, row)
    return np.ctypeslib.as_array(pointer, (num_vocab,))
