"""Open a model file, with its weights or without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from llama_cpp import llama_cpp as api

from edgekv.budget.active import active_bytes
from edgekv.budget.geometry import read_geometry
from edgekv.core.plan import ModelFacts
from edgekv.errors import ModelError
from edgekv.llama.adapters import LoadedAdapters
from edgekv.llama.gguf import Header
from edgekv.llama.library import LogRecorder
from edgekv.llama.placement import Placement, place
from edgekv.llama.vocabulary import LlamaVocabulary


class LlamaModel:
    """A `llama_model`. `handle` is its pointer until `close`."""

    def __init__(self, handle: int, placed: tuple[object, ...] = ()) -> None:
        self.handle = handle
        # The library keeps pointers into it.
        self._placed = placed
        self.vocabulary = LlamaVocabulary(handle)
        self.adapters: LoadedAdapters | None = None
        """Those that were loaded last; the library frees them with the model."""

    def close(self) -> None:
        api.llama_model_free(self.handle)


def open_without_weights(path: str, placement: Placement, log: LogRecorder) -> LlamaModel:
    """A model whose buffers are only sized: for metadata, tokenising and dry runs."""
    params = api.llama_model_default_params()
    params.no_alloc = True
    # Any mapping mode aborts the process together with no_alloc.
    params.load_mode = api.LLAMA_LOAD_MODE_NONE
    return _load(path, placement, params, log)


def open_with_weights(
    path: str,
    placement: Placement,
    use_mmap: bool,
    log: LogRecorder,
    on_progress: Callable[[float], None],
) -> LlamaModel:
    params = api.llama_model_default_params()
    params.load_mode = api.LLAMA_LOAD_MODE_MMAP if use_mmap else api.LLAMA_LOAD_MODE_NONE

    def hear(fraction: float, _: object) -> bool:
        on_progress(fraction)
        return True

    params.progress_callback = api.llama_progress_callback(hear)
    return _load(path, placement, params, log)


def _load(
    path: str, placement: Placement, params: api.llama_model_params, log: LogRecorder
) -> LlamaModel:
    placed = place(params, placement)
    handle = api.llama_model_load_from_file(path.encode(), params)
    if not handle:
        raise ModelError(
            f"llama.cpp cannot open {path} ({log.last_error()}); try another file of this model."
        )
    return LlamaModel(handle, placed)


def facts(path: str, header: Header, model: LlamaModel) -> ModelFacts:
    """What the file says about itself."""
    handle, vocabulary = model.handle, model.vocabulary
    metadata = header.metadata
    geometry = read_geometry(metadata)
    is_shared = geometry is None or geometry.is_shared
    return ModelFacts(
        path=path,
        name=metadata.get("general.name") or Path(path).stem,
        architecture=metadata.get("general.architecture", "unknown"),
        file_bytes=header.file_bytes,
        context_train=api.llama_model_n_ctx_train(handle),
        num_layers=api.llama_model_n_layer(handle),
        num_vocab=vocabulary.num_tokens,
        metadata=metadata,
        weight_bytes=header.tensor_bytes,
        window=api.llama_model_n_swa(handle),
        is_recurrent=api.llama_model_is_recurrent(handle),
        # Where each sequence id has a pool of its own, its cells cannot be shared or cut either.
        is_hybrid=api.llama_model_is_hybrid(handle) or not is_shared,
        has_decoder=api.llama_model_has_decoder(handle),
        chat_template=metadata.get("tokenizer.chat_template") or None,
        bos_text=vocabulary.bos_text,
        eos_text=vocabulary.eos_text,
        adds_bos=vocabulary.adds_bos,
        control_texts=vocabulary.control_texts(),
        infill_marks=vocabulary.infill_marks(),
        active_bytes=active_bytes(header.tensors, metadata),
    )
