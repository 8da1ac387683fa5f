"""`core.ports` implemented with llama.cpp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace

from edgekv.budget.formulas import state_bytes
from edgekv.budget.geometry import read_geometry
from edgekv.core.events import TokenLogprob
from edgekv.core.plan import Allocation, BufferSize, Choice, DeviceInfo, ModelFacts, Opening
from edgekv.core.ports import Backend, Vocabulary
from edgekv.core.request import SamplingParams, SeqId, Token
from edgekv.errors import ModelError, Unavailable
from edgekv.llama import allocation, library, rpc
from edgekv.llama.adapters import LoadedAdapters, refuse_adapter
from edgekv.llama.connections import notice_loss
from edgekv.llama.context import LlamaContext
from edgekv.llama.embedding import EmbeddingContext
from edgekv.llama.file_check import check_file
from edgekv.llama.gguf import Header
from edgekv.llama.grammar import GrammarCompiler
from edgekv.llama.likelihoods import Likelihoods
from edgekv.llama.model import (
    LlamaModel,
    facts,
    open_with_weights,
    open_without_weights,
)
from edgekv.llama.placement import ALL_LAYERS, Placement
from edgekv.llama.sampler import SamplerChain, logits_of
from edgekv.llama.state_key import state_key

Reopen: TypeAlias = Callable[[Choice], tuple[LlamaContext, Allocation]]
"""Opens another context on the same model, once the first is closed. Raises `ModelError`."""


class LlamaBackend:
    """One open model and context. Implements `core.ports.Backend`."""

    def __init__(
        self,
        model: LlamaModel,
        context: LlamaContext,
        embedding: EmbeddingContext | None,
        opening: Opening,
        grammars: GrammarCompiler,
        reopen: Reopen,
    ) -> None:
        self._model, self._embedding, self._grammars = model, embedding, grammars
        self._reopen = reopen
        self._samplers: dict[SeqId, SamplerChain] = {}
        self._num_top: dict[SeqId, int] = {}
        """Of the sequences whose requests ask for log-probabilities."""
        self._logprobs: dict[SeqId, TokenLogprob] = {}
        self.state_key = state_key(opening)
        self.compile, self.compiled = grammars.compile, grammars.compiled
        self._use(context)

    def _use(self, context: LlamaContext) -> None:
        self._context = context
        self.num_cells, self.num_seqs = context.num_cells, context.num_seqs
        self.share, self.cut, self.decode = context.share, context.cut, context.decode
        self.save, self.load = context.save, context.load

    def resize(self, choice: Choice) -> Allocation:
        assert not self._samplers
        self._context.close()
        context, allocated = self._reopen(choice)
        self._use(context)
        return allocated

    def attach(
        self,
        seq_id: SeqId,
        sampling: SamplingParams,
        prompt: Sequence[Token],
        generated: Sequence[Token] = (),
    ) -> None:
        assert seq_id not in self._samplers
        constraint = None
        if sampling.grammar is not None:
            constraint = self._grammars.start(sampling.grammar, generated)
        num_vocab = self._model.vocabulary.num_tokens
        known = [*prompt, *generated]
        self._samplers[seq_id] = SamplerChain(sampling, num_vocab, known, constraint)
        if sampling.top_logprobs is not None:
            self._num_top[seq_id] = sampling.top_logprobs

    def detach(self, seq_id: SeqId) -> None:
        self._samplers.pop(seq_id).close()
        self._num_top.pop(seq_id, None)
        self._logprobs.pop(seq_id, None)

    def sample(self, seq_id: SeqId) -> Token:
        context, row = self._context.handle, self._context.output_rows[seq_id]
        sampler, num_top = self._samplers[seq_id], self._num_top.get(seq_id)
        if num_top is None:
            return sampler.sample(context, row)
        vocabulary = self._model.vocabulary
        likelihoods = Likelihoods(logits_of(context, row, vocabulary.num_tokens), num_top)
        token = sampler.sample(context, row)
        self._logprobs[seq_id] = likelihoods.of(token, vocabulary.piece, vocabulary.spelling)
        return token

    def is_complete(self, seq_id: SeqId) -> bool:
        return self._samplers[seq_id].is_complete

    def logprob(self, seq_id: SeqId) -> TokenLogprob | None:
        return self._logprobs.get(seq_id)

    def embed(self, tokens: Sequence[Token]) -> tuple[float, ...]:
        if self._embedding is None:
            raise Unavailable("No memory was planned for embeddings; start with --embeddings.")
        return self._embedding.embed(tokens)

    def close(self) -> None:
        for seq_id in list(self._samplers):
            self.detach(seq_id)
        if self._embedding is not None:
            self._embedding.close()
        self._context.close()
        self._model.close()


class LlamaLibrary:
    """Implements `core.ports.ModelLibrary`.

    The last model opened without weights is kept for the dry runs that follow its description.
    """

    def __init__(self, trial_command: Sequence[str], workers: Sequence[str] = ()) -> None:
        """`trial_command` starts a process that runs `grammar_trial.main`. `workers` (HOST:PORT)
        lend devices; the process ends if one of them is away.
        """
        self._trial_command = trial_command
        self._log = library.start()
        rpc.connect(workers)
        self._sized: tuple[str, Placement, Header, LlamaModel] | None = None
        self._has_gpu = any(device.kind != "cpu" for device in library.handles())

    def devices(self) -> tuple[DeviceInfo, ...]:
        return library.devices()

    def describe(self, path: str) -> ModelFacts:
        header, model = self._open_sized(path, Placement(ALL_LAYERS))
        return facts(path, header, model)

    def dry_run(self, opening: Opening) -> Allocation:
        header, model = self._open_sized(opening.path, Placement.of(opening.choice))
        adapters = self._adapters(header, model, opening)
        with self._log.recording() as lines:
            context = LlamaContext(model.handle, opening, self._log)
        try:
            formulas = _formulas(header, context, opening.choice)
            answers = allocation.simulated(
                context.handle, lines, formulas, weight_bytes=header.tensor_bytes
            )
        finally:
            context.close()
        embedding, buffers = self._embedding(model, opening.choice)
        if embedding is not None:
            embedding.close()
        whole = Allocation((*answers.buffers, *buffers))
        return adapters.with_room(whole, opening.choice.ubatch)

    def open(
        self, opening: Opening, on_progress: Callable[[float], None]
    ) -> tuple[Backend, Vocabulary, Allocation]:
        self._close_sized()
        header = self._check(opening.path)
        placement = Placement.of(opening.choice)
        with self._log.recording() as lines:
            model = open_with_weights(
                opening.path, placement, opening.use_mmap, self._log, on_progress
            )
        try:
            adapters = self._adapters(header, model, opening)
            context, answers = self._answering((header, model), lines, opening)
        except ModelError:
            model.close()
            raise
        try:
            embedding, buffers = self._embedding(model, opening.choice)
        except Unavailable:
            context.close()
            model.close()
            raise
        if embedding is not None:
            adapters.apply(embedding.handle)
        buffers += adapters.buffers
        grammars = GrammarCompiler(model.vocabulary, self._trial_command)
        weights = (b for b in answers.buffers if b.label == "weights")
        if opening.choice.worker_layers:
            notice_loss()
        reopen = partial(self._reopen, (header, model), opening, (*weights, *buffers))
        backend = LlamaBackend(model, context, embedding, opening, grammars, reopen)
        return backend, model.vocabulary, Allocation((*answers.buffers, *buffers))

    def _reopen(
        self,
        opened: tuple[Header, LlamaModel],
        opening: Opening,
        lasting: tuple[BufferSize, ...],
        choice: Choice,
    ) -> tuple[LlamaContext, Allocation]:
        """A context for answers, beside the `lasting` buffers of the model."""
        context, answers = self._answering(opened, [], replace(opening, choice=choice))
        changed = (b for b in answers.buffers if b.label != "weights")
        return context, Allocation((*lasting, *changed))

    def _answering(
        self, opened: tuple[Header, LlamaModel], model_log: allocation.Lines, opening: Opening
    ) -> tuple[LlamaContext, Allocation]:
        """A context for answers and what it took, with the weights if `model_log` tells them."""
        header, model = opened
        with self._log.recording() as lines:
            context = LlamaContext(model.handle, opening, self._log)
        self._adapters(header, model, opening).apply(context.handle)
        formulas = _formulas(header, context, opening.choice)
        answers = allocation.measured(context.handle, [*model_log, *lines], formulas)
        keeps_output = Placement.of(opening.choice).keeps_output
        tensor_bytes = header.tensor_bytes if keeps_output else header.spread_bytes
        return context, allocation.without_gaps(answers, tensor_bytes)

    def _adapters(self, header: Header, model: LlamaModel, opening: Opening) -> LoadedAdapters:
        """Those of the opening, loaded once for all contexts of a model."""
        if model.adapters is None or model.adapters.adapters != opening.adapters:
            model.adapters = LoadedAdapters(model.handle, header, opening.adapters, self._log)
        return model.adapters

    def _check(self, path: str) -> Header:
        header = check_file(path, self._log)
        refuse_adapter(path, header)
        return header

    def _embedding(
        self, model: LlamaModel, choice: Choice
    ) -> tuple[EmbeddingContext | None, tuple[BufferSize, ...]]:
        """The context for embeddings that the choice has room for, and what it takes."""
        if not choice.embedding_cells:
            return None, ()
        context = EmbeddingContext(model.handle, choice, self._log)
        return context, context.buffers()

    def _open_sized(self, path: str, placement: Placement) -> tuple[Header, LlamaModel]:
        if not self._has_gpu:
            placement = Placement(0)  # without a device, any opens the same model
        if self._sized is not None and self._sized[:2] == (path, placement):
            return self._sized[2:]
        self._close_sized()
        header = self._check(path)
        with self._log.recording():
            model = open_without_weights(path, placement, self._log)
        self._sized = (path, placement, header, model)
        return header, model

    def _close_sized(self) -> None:
        if self._sized is not None:
            self._sized[3].close()
            self._sized = None


def _formulas(header: Header, context: LlamaContext, choice: Choice) -> allocation.Formulas:
    geometry = read_geometry(header.metadata)
    state = 0 if geometry is None else state_bytes(geometry, choice.num_ids)
    return allocation.Formulas(context.output_bytes, state)
