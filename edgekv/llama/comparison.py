"""Two contexts over one model's weights, fed the same tokens; what differs is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgekv.core.batch import BatchPlan, BatchSlice, DecodeStatus
from edgekv.core.comparison import Likeness, Passage, Scored
from edgekv.core.plan import Opening
from edgekv.core.request import SeqId, Token
from edgekv.errors import ModelError
from edgekv.llama import library
from edgekv.llama.context import LlamaContext
from edgekv.llama.file_check import check_file
from edgekv.llama.library import LogRecorder
from edgekv.llama.model import LlamaModel, Placement, open_with_weights
from edgekv.llama.sampler import logits_of
from edgekv.llama.vocabulary import LlamaVocabulary

SHARED, TEXT = SeqId(0), SeqId(1)

Logits = NDArray[np.float32]


@dataclass(slots=True)
class _Tally:
    """The lists of a `Likeness` while it grows."""

    reference_logprobs: list[float] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    reference_hits: list[bool] = field(default_factory=list)
    hits: list[bool] = field(default_factory=list)
    agreements: list[bool] = field(default_factory=list)
    divergences: list[float] = field(default_factory=list)

    def add(self, reference: Logits, candidate: Logits, token: Token) -> None:
        """Count two predictions of one token; both are logits over the vocabulary."""
        before, after = log_probabilities(reference), log_probabilities(candidate)
        likeliest, now_likeliest = int(before.argmax()), int(after.argmax())
        self.reference_logprobs.append(float(before[token]))
        self.logprobs.append(float(after[token]))
        self.reference_hits.append(likeliest == token)
        self.hits.append(now_likeliest == token)
        self.agreements.append(likeliest == now_likeliest)
        self.divergences.append(divergence(before, after))

    def likeness(self) -> Likeness:
        return Likeness(
            tuple(self.reference_logprobs),
            tuple(self.logprobs),
            tuple(self.reference_hits),
            tuple(self.hits),
            tuple(self.agreements),
            tuple(self.divergences),
        )


class LlamaComparison:
    """Implements `core.ports.Comparison`."""

    def __init__(
        self, model: LlamaModel, reference: Opening, candidate: Opening, log: LogRecorder
    ) -> None:
        """Raises `ModelError` if a context cannot be opened; `model` is then the caller's."""
        self._model = model
        self._contexts = [LlamaContext(model.handle, reference, log)]
        try:
            self._contexts.append(LlamaContext(model.handle, candidate, log))
        except ModelError:
            self._contexts[0].close()
            raise
        choices = (reference.choice, candidate.choice)
        self._num_rows = min(min(choice.num_ids, choice.batch) for choice in choices)
        self._batches = tuple(choice.batch for choice in choices)

    def compare(self, passage: Passage) -> tuple[Likeness, ...]:
        shared = passage.shared_length
        start = passage.texts[0].tokens[:shared]
        for context, batch in zip(self._contexts, self._batches, strict=True):
            _decode_all(context, SHARED, 0, start, batch)
        likenesses = tuple(self._compare_text(text, shared) for text in passage.texts)
        self._forget(SHARED)
        return likenesses

    def close(self) -> None:
        for context in self._contexts:
            context.close()
        self._model.close()

    def _compare_text(self, text: Scored, shared: int) -> Likeness:
        """`text`, of which the first `shared` tokens have cells already."""
        # From here on each row of logits predicts the token after it.
        first_row = text.scored_from - 1
        for context, batch in zip(self._contexts, self._batches, strict=True):
            context.share(SHARED, TEXT, -1, -1)
            _decode_all(context, TEXT, shared, text.tokens[shared:first_row], batch)
        tally = _Tally()
        for start in range(first_row, len(text.tokens) - 1, self._num_rows):
            end = min(start + self._num_rows, len(text.tokens) - 1)
            rows = BatchPlan(
                tuple(BatchSlice(TEXT, i, (text.tokens[i],), True) for i in range(start, end))
            )
            for context in self._contexts:
                _decode(context, rows)
            for row, position in enumerate(range(start, end)):
                reference, candidate = self._logits(row)
                tally.add(reference, candidate, text.tokens[position + 1])
        self._forget(TEXT)
        return tally.likeness()

    def _logits(self, row: int) -> Iterator[Logits]:
        num_vocab = self._model.vocabulary.num_tokens
        return (logits_of(context.handle, row, num_vocab) for context in self._contexts)

    def _forget(self, seq_id: SeqId) -> None:
        for context in self._contexts:
            context.cut(seq_id, -1, -1)


class LlamaComparisonLibrary:
    """Implements `core.ports.ComparisonLibrary`."""

    def __init__(self) -> None:
        self._log = library.start()

    def open_comparison(
        self, reference: Opening, candidate: Opening, on_progress: Callable[[float], None]
    ) -> tuple[LlamaComparison, LlamaVocabulary]:
        check_file(reference.path, self._log)
        choice = reference.choice
        with self._log.recording():
            model = open_with_weights(
                reference.path, Placement.of(choice), reference.use_mmap, self._log, on_progress
            )
            try:
                return LlamaComparison(model, reference, candidate, self._log), model.vocabulary
            except ModelError:
                model.close()
                raise


def log_probabilities(logits: Logits) -> Logits:
    shifted = logits - logits.max()
    total: Logits = shifted - np.log(np.exp(shifted).sum(dtype=np.float64)).astype(np.float32)
    return total


def divergence(reference: Logits, candidate: Logits) -> float:
    """Kullback-Leibler divergence in nats of two vectors of log-probabilities."""
    terms = np.exp(reference) * (reference - candidate)
    # Rounding makes it a little less than 0 where there is no difference.
    return max(0.0, float(terms.sum(dtype=np.float64)))


def _decode_all(
    context: LlamaContext, seq_id: SeqId, start: int, tokens: tuple[Token, ...], batch: int
) -> None:
    for first in range(0, len(tokens), batch):
        piece = tokens[first : first + batch]
        _decode(context, BatchPlan((BatchSlice(seq_id, start + first, piece, False),)))


def _decode(context: LlamaContext, plan: BatchPlan) -> None:
    if context.decode(plan) is not DecodeStatus.DONE:
        raise ModelError("llama.cpp could not compute a passage; try a shorter --ctx.")
