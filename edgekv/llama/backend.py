"""`core.ports` implemented with llama.cpp."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgekv.core.events import TokenLogprob
from edgekv.core.plan import Allocation, Choice, DeviceInfo, ModelFacts, Opening
from edgekv.core.ports import Backend, Vocabulary
from edgekv.core.request import SamplingParams, SeqId, Token
from edgekv.errors import ModelError, Unavailable
from edgekv.llama import allocation, library
from edgekv.llama.context import LlamaContext
from edgekv.llama.embedding import EmbeddingContext
from edgekv.llama.gguf import Header
from edgekv.llama.grammar import GrammarCompiler
from edgekv.llama.likelihoods import Likelihoods
from edgekv.llama.model import (
    LlamaModel,
    check_file,
    facts,
    open_with_weights,
    open_without_weights,
)
from edgekv.llama.sampler import SamplerChain, logits_of
from edgekv.llama.state_key import state_key

ALL_LAYERS = -1


class LlamaBackend:
    """One open model and context. Implements `core.ports.Backend`."""

    def __init__(
        self, model: LlamaModel, context: LlamaContext, opening: Opening, grammars: GrammarCompiler
    ) -> None:
        self._model, self._context, self._grammars = model, context, grammars
        self._choice: Choice = opening.choice
        self._samplers: dict[SeqId, SamplerChain] = {}
        self._num_top: dict[SeqId, int] = {}
        """Of the sequences whose requests ask for log-probabilities."""
        self._logprobs: dict[SeqId, TokenLogprob] = {}
        self._embedding: EmbeddingContext | None = None
        self.state_key = state_key(opening)
        self.num_cells, self.num_seqs = context.num_cells, context.num_seqs
        self.share, self.cut, self.decode = context.share, context.cut, context.decode
        self.save, self.load = context.save, context.load
        self.compile, self.compiled = grammars.compile, grammars.compiled

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
        if not self._choice.embedding_cells:
            raise Unavailable("No memory was planned for embeddings; start with room for them.")
        if self._embedding is None:
            self._embedding = EmbeddingContext(self._model.handle, self._choice)
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

    def __init__(self, trial_command: Sequence[str]) -> None:
        """`trial_command` starts a process that runs `grammar_trial.main`."""
        self._trial_command = trial_command
        self._log = library.start()
        self._sized: tuple[str, int, Header, LlamaModel] | None = None
        self._has_gpu = any(device.kind != "cpu" for device in library.devices())

    def devices(self) -> tuple[DeviceInfo, ...]:
        return library.devices()

    def describe(self, path: str) -> ModelFacts:
        header, model = self._open_sized(path, ALL_LAYERS)
        return facts(path, header, model)

    def dry_run(self, opening: Opening) -> Allocation:
        header, model = self._open_sized(opening.path, opening.choice.gpu_layers)
        with self._log.recording() as lines:
            context = LlamaContext(model.handle, opening, self._log)
        try:
            return allocation.simulated(context.handle, lines, weight_bytes=header.tensor_bytes)
        finally:
            context.close()

    def open(
        self, opening: Opening, on_progress: Callable[[float], None]
    ) -> tuple[Backend, Vocabulary, Allocation]:
        self._close_sized()
        check_file(opening.path, self._log)
        gpu_layers = opening.choice.gpu_layers
        with self._log.recording() as lines:
            model = open_with_weights(
                opening.path, gpu_layers, opening.use_mmap, self._log, on_progress
            )
            try:
                context = LlamaContext(model.handle, opening, self._log)
            except ModelError:
                model.close()
                raise
        allocated = allocation.measured(context.handle, lines)
        grammars = GrammarCompiler(model.vocabulary, self._trial_command)
        backend = LlamaBackend(model, context, opening, grammars)
        return backend, model.vocabulary, allocated

    def _open_sized(self, path: str, gpu_layers: int) -> tuple[Header, LlamaModel]:
        if not self._has_gpu:
            gpu_layers = 0  # without a device, any number opens the same model
        if self._sized is not None and self._sized[:2] == (path, gpu_layers):
            return self._sized[2:]
        self._close_sized()
        header = check_file(path, self._log)
        with self._log.recording():
            model = open_without_weights(path, gpu_layers, self._log)
        self._sized = (path, gpu_layers, header, model)
        return header, model

    def _close_sized(self) -> None:
        if self._sized is not None:
            self._sized[3].close()
            self._sized = None
