"""LoRA adapters: small changes to a model's weights, from files of their own."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from pathlib import Path

from llama_cpp import llama_cpp as api
from msgspec.structs import replace

from edgekv.budget.metadata import ModelKeys
from edgekv.core.plan import Adapter, Allocation, BufferSize
from edgekv.errors import ModelError
from edgekv.llama.file_check import check_file
from edgekv.llama.gguf import Header
from edgekv.llama.library import LogRecorder

_BUFFER_LINE = re.compile(r"(?P<device>\S+) LoRA buffer size =\s*(?P<mib>[\d.]+) MiB")
_KIND = "general.type"
_ADAPTER = "adapter"


class LoadedAdapters:
    """Adapters of one open model, which frees them with itself."""

    def __init__(
        self, model: int, base: Header, adapters: Sequence[Adapter], log: LogRecorder
    ) -> None:
        """Raises `ModelError` for a file that is no adapter of this model.

        Their memory is taken, also if the model is only sized.
        """
        self.adapters = tuple(adapters)
        self.buffers: tuple[BufferSize, ...] = ()
        keys = ModelKeys(base.metadata)
        hidden = keys.numbers("feed_forward_length")
        self._widest = max([keys.number("embedding_length"), *hidden])
        self._handles: list[object] = []
        self._scales = [adapter.scale for adapter in adapters]
        for adapter in adapters:
            header = _checked(adapter.path, base, log)
            with log.recording() as lines:
                handle = api.llama_adapter_lora_init(model, adapter.path.encode())
            if not handle:
                raise ModelError(
                    f"{adapter.path} does not fit this model ({log.last_error()}); "
                    "take the adapter that was made for it."
                )
            self._handles.append(handle)
            self.buffers += _buffers(header, [line for _, line in lines])

    def apply(self, context: int) -> None:
        """Use them in everything that the open context computes from now on.

        The library makes room for that with the first token, so one is computed here.
        """
        if not self._handles:
            return
        count = len(self._handles)
        handles = (api.llama_adapter_lora_p_ctypes * count)(*self._handles)
        api.llama_set_adapters_lora(
            context, handles, count, (ctypes.c_float * count)(*self._scales)
        )
        api.llama_decode(context, api.llama_batch_get_one((api.llama_token * 1)(0), 1))
        memory = api.llama_get_memory(context)
        if memory:
            api.llama_memory_clear(memory, True)

    def with_room(self, allocation: Allocation, ubatch: int) -> Allocation:
        """A dry run's allocation with what computing the adapters takes on top, by estimate: the
        widest of their products, and its sum with the model's.
        """
        if not self._handles:
            return allocation
        extra = 2 * 4 * ubatch * self._widest
        buffers = (
            replace(b, bytes=b.bytes + extra, estimated=True) if b.label == "compute" else b
            for b in allocation.buffers
        )
        return Allocation((*buffers, *self.buffers))


def refuse_adapter(path: str, header: Header) -> None:
    """Raise `ModelError` if what should be a model is an adapter."""
    if header.metadata.get(_KIND) == _ADAPTER:
        raise ModelError(
            f"{path} is an adapter and no model; name the model it was made for, "
            f"with --lora {path}."
        )


def _checked(path: str, base: Header, log: LogRecorder) -> Header:
    header = check_file(path, log)
    if header.metadata.get(_KIND) != _ADAPTER:
        raise ModelError(f"{path} is a model and no adapter; give --lora a LoRA adapter.")
    made_for = header.metadata.get("general.architecture", "unknown")
    architecture = base.metadata.get("general.architecture", "unknown")
    if made_for != architecture:
        raise ModelError(
            f"{Path(path).name} is an adapter for {made_for} models and this is a "
            f"{architecture} model; take one that was made for it."
        )
    return header


def _buffers(header: Header, lines: Sequence[str]) -> tuple[BufferSize, ...]:
    """On one device an adapter takes what its file holds; on several the log divides it."""
    printed = [match for line in lines if (match := _BUFFER_LINE.search(line))]
    if len(printed) == 1:
        return (_buffer(printed[0]["device"], header.tensor_bytes),)
    mib = 1024 * 1024
    return tuple(_buffer(m["device"], round(float(m["mib"]) * mib)) for m in printed)


def _buffer(name: str, size: int) -> BufferSize:
    device = "CPU" if name.endswith("_Host") else name.split("_")[0]
    return BufferSize(device, "adapter", size, buffer_type=name)
