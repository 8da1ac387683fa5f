"""Contexts over one model's weights, fed the same tokens; what differs is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgekv.core.batch import BatchPlan, BatchSlice, DecodeStatus
from edgekv.core.comparison import Likeness, Passage, Scored
from edgekv.core.plan import Opening
from edgekv.core.request import SeqId, Token
from edgekv.errors import ModelError
from edgekv.llama import library, rpc
from edgekv.llama.context import LlamaContext
from edgekv.llama.file_check import check_file
from edgekv.llama.library import LogRecorder
from edgekv.llama.model import LlamaModel, open_with_weights
from edgekv.llama.placement import Placement
from edgekv.llama.sampler import logits_of
from edgekv.llama.vocabulary import LlamaVocabulary

SHARED, FIRST_BRANCH = SeqId(0), SeqId(1)

Logits = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Prediction:
    """What a context expects after a token."""

    logprobs: Logits
    """Over the vocabulary."""
    likeliest: int

    @classmethod
    def of(cls, logits: Logits) -> _Prediction:
        logprobs = log_probabilities(logits)
        return cls(logprobs, int(logprobs.argmax()))


@dataclass(slots=True)
class _Tally:
    """The lists of a `Likeness` while it grows."""

    reference_logprobs: list[float] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    reference_hits: list[bool] = field(default_factory=list)
    hits: list[bool] = field(default_factory=list)
    agreements: list[bool] = field(default_factory=list)
    divergences: list[float] = field(default_factory=list)

    def add(self, reference: _Prediction, candidate: _Prediction, token: Token) -> None:
        """Count two predictions of one token."""
        self.reference_logprobs.append(float(reference.logprobs[token]))
        self.logprobs.append(float(candidate.logprobs[token]))
        self.reference_hits.append(reference.likeliest == token)
        self.hits.append(candidate.likeliest == token)
        self.agreements.append(reference.likeliest == candidate.likeliest)
        self.divergences.append(divergence(reference.logprobs, candidate.logprobs))

    def likeness(self) -> Likeness:
        return Likeness(
            tuple(self.reference_logprobs),
            tuple(self.logprobs),
            tuple(self.reference_hits),
            tuple(self.hits),
            tuple(self.agreements),
            tuple(self.divergences),
        )


@dataclass(frozen=True, slots=True)
class _Branch:
    """A text that goes on after what all share, and what is counted on it."""

    seq_id: SeqId
    text: Scored
    tallies: tuple[_Tally, ...]
    """One a candidate."""

    def unscored(self, shared: int) -> BatchSlice:
        """What is computed before the first row that predicts a scored token."""
        return BatchSlice(
            self.seq_id, shared, self.text.tokens[shared : self.text.scored_from - 1], False
        )

    def rows(self) -> Iterator[BatchSlice]:
        """A token whose logits predict the one after it, for each that is scored."""
        for place in range(self.text.scored_from - 1, len(self.text.tokens) - 1):
            yield BatchSlice(self.seq_id, place, (self.text.tokens[place],), True)

    def count(self, row: BatchSlice, reference: _Prediction, candidates: list[_Prediction]) -> None:
        token = self.text.tokens[row.start + 1]
        for tally, candidate in zip(self.tallies, candidates, strict=True):
            tally.add(reference, candidate, token)


class _Contexts:
    """Contexts that are given the same, the reference first."""

    def __init__(
        self, contexts: Sequence[LlamaContext], num_tokens: int, hear: Callable[[float], None]
    ) -> None:
        """`hear` is told what part of `num_tokens` is computed."""
        self._contexts = contexts
        self._num_left = self._num_tokens = num_tokens * len(contexts)
        self._hear = hear

    def decode(self, plans: Iterable[BatchPlan]) -> None:
        for plan in plans:
            for context in self._contexts:
                if context.decode(plan) is not DecodeStatus.DONE:
                    raise ModelError("llama.cpp could not compute a passage; try a shorter --ctx.")
                self._num_left -= plan.num_tokens
                self._hear(1 - self._num_left / self._num_tokens)

    def share(self, seq_id: SeqId) -> None:
        """Let `seq_id` see what all texts begin with."""
        for context in self._contexts:
            context.share(SHARED, seq_id, -1, -1)

    def forget(self, seq_id: SeqId) -> None:
        for context in self._contexts:
            context.cut(seq_id, -1, -1)

    def predictions(self, row: int, num_vocab: int) -> Iterator[_Prediction]:
        for context in self._contexts:
            yield _Prediction.of(logits_of(context.handle, row, num_vocab))


class LlamaComparison:
    """Implements `core.ports.Comparison`."""

    def __init__(
        self,
        model: LlamaModel,
        reference: Opening,
        candidates: Sequence[Opening],
        log: LogRecorder,
    ) -> None:
        """Raises `ModelError` if a context cannot be opened; `model` is then the caller's."""
        self._model = model
        self._contexts: list[LlamaContext] = []
        try:
            for opening in (reference, *candidates):
                self._contexts.append(LlamaContext(model.handle, opening, log))
        except ModelError:
            self._close_contexts()
            raise
        choices = [opening.choice for opening in (reference, *candidates)]
        self._batch = min(choice.batch for choice in choices)
        self._num_ids = min(choice.num_ids for choice in choices)
        self._cells = min(choice.cells for choice in choices)

    def compare(
        self, passage: Passage, candidates: Sequence[int], on_progress: Callable[[float], None]
    ) -> tuple[tuple[Likeness, ...], ...]:
        asked = [self._contexts[0], *(self._contexts[1 + number] for number in candidates)]
        contexts = _Contexts(asked, passage.num_cells, on_progress)
        shared = passage.shared_length
        start = BatchSlice(SHARED, 0, passage.texts[0].tokens[:shared], False)
        contexts.decode(packed([start], self._batch))
        tallies = [tuple(_Tally() for _ in candidates) for _ in passage.texts]
        for group in self._groups(passage, tallies):
            self._read(contexts, group, shared)
        contexts.forget(SHARED)
        return tuple(tuple(tally.likeness() for tally in own) for own in zip(*tallies, strict=True))

    def close(self) -> None:
        self._close_contexts()
        self._model.close()

    def _groups(
        self, passage: Passage, tallies: list[tuple[_Tally, ...]]
    ) -> Iterator[list[_Branch]]:
        """Texts to be read at once, as many as there are cells and sequence ids for.

        A processor computes a few tokens at nearly the cost of many.
        """
        group: list[_Branch] = []
        shared = passage.shared_length
        room = self._cells - shared
        for text, own in zip(passage.texts, tallies, strict=True):
            num_cells = len(text.tokens) - shared
            if group and (num_cells > room or len(group) == self._num_ids - 1):
                yield group
                group, room = [], self._cells - shared
            group.append(_Branch(SeqId(FIRST_BRANCH + len(group)), text, own))
            room -= num_cells
        yield group

    def _read(self, contexts: _Contexts, group: list[_Branch], shared: int) -> None:
        """Compute branches after the first `shared` tokens, which have cells already."""
        for branch in group:
            contexts.share(branch.seq_id)
        contexts.decode(packed((branch.unscored(shared) for branch in group), self._batch))
        by_id = {branch.seq_id: branch for branch in group}
        rows = (row for branch in group for row in branch.rows())
        num_vocab = self._model.vocabulary.num_tokens
        for plan in packed(rows, min(self._num_ids, self._batch)):
            contexts.decode([plan])
            for place, row in enumerate(plan.slices):
                reference, *others = contexts.predictions(place, num_vocab)
                by_id[row.seq_id].count(row, reference, others)
        for branch in group:
            contexts.forget(branch.seq_id)

    def _close_contexts(self) -> None:
        for context in self._contexts:
            context.close()


class LlamaComparisonLibrary:
    """Implements `core.ports.ComparisonLibrary`."""

    def __init__(self, workers: Sequence[str] = ()) -> None:
        """`workers` (HOST:PORT) lend devices; the process ends if one of them is away."""
        self._log = library.start()
        rpc.connect(workers)

    def open_comparison(
        self,
        reference: Opening,
        candidates: Sequence[Opening],
        on_progress: Callable[[float], None],
    ) -> tuple[LlamaComparison, LlamaVocabulary]:
        check_file(reference.path, self._log)
        choice = reference.choice
        with self._log.recording():
            model = open_with_weights(
                reference.path, Placement.of(choice), reference.use_mmap, self._log, on_progress
            )
            try:
                comparison = LlamaComparison(model, reference, candidates, self._log)
            except ModelError:
                model.close()
                raise
        return comparison, model.vocabulary


def packed(slices: Iterable[BatchSlice], most: int) -> Iterator[BatchPlan]:
    """The tokens of slices in their order, in plans of at most `most` tokens each."""
    pieces: list[BatchSlice] = []
    room = most
    for whole in slices:
        start, tokens = whole.start, whole.tokens
        while tokens:
            piece, tokens = tokens[:room], tokens[room:]
            pieces.append(BatchSlice(whole.seq_id, start, piece, whole.wants_logits))
            start, room = start + len(piece), room - len(piece)
            if not room:
                yield BatchPlan(tuple(pieces))
                pieces, room = [], most
    if pieces:
        yield BatchPlan(tuple(pieces))


def log_probabilities(logits: Logits) -> Logits:
    shifted = logits - logits.max()
    total: Logits = shifted - np.log(np.exp(shifted).sum(dtype=np.float64)).astype(np.float32)
    return total


def divergence(reference: Logits, candidate: Logits) -> float:
    """Kullback-Leibler divergence in nats of two vectors of log-probabilities."""
    terms = np.exp(reference) * (reference - candidate)
    # Rounding makes it a little less than 0 where there is no difference.
    return max(0.0, float(terms.sum(dtype=np.float64)))
