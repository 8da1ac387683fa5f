"""Where a model's layers go: the processor has the first, then come workers, then graphics.

layer    0 … a   a … b      b … c      c … the last one, and the output
on       CPU     worker 1   worker 2   graphics devices
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from llama_cpp import llama_cpp as api

from edgekv.core.plan import Choice
from edgekv.llama.library import handles, lib

ALL_LAYERS = -1

_EXPERTS = rb"blk\.%d\.ffn_(up|down|gate|gate_up)_(ch|)exps"
"""The tensors that llama.cpp's own --n-cpu-moe means."""
_OUTPUT = rb"^(output|token_embd)\.weight$"
"""What turns the last layer's result into a score for each word; in some models, what also turns
words into the first layer's.
"""


class Placement(NamedTuple):
    """Where a model's layers go."""

    gpu_layers: int
    host_experts: int = 0
    """Layers, from the first on, whose experts stay on the host. Of a token's many experts few
    compute, so they are what a graphics device misses least.
    """
    worker_layers: tuple[int, ...] = ()
    """How many of `gpu_layers` go to each device of a worker."""

    @property
    def keeps_output(self) -> bool:
        """Whether the output stays here though the layers before it are on workers: one number
        for each word of the vocabulary is much more to send than what a layer hands on.
        """
        return 0 < self.gpu_layers == sum(self.worker_layers)

    @classmethod
    def of(cls, choice: Choice) -> Placement:
        return cls(choice.gpu_layers, choice.host_experts, choice.worker_layers)


class Override(ctypes.Structure):
    """`llama_model_tensor_buft_override`: tensors that match go into buffers of this type."""

    _fields_ = [("pattern", ctypes.c_char_p), ("buffer_type", ctypes.c_void_p)]


def place(params: api.llama_model_params, placement: Placement) -> tuple[object, ...]:
    """Fill in `params`. What is returned must live as long as the model."""
    overrides = _overrides(placement)
    params.tensor_buft_overrides = ctypes.cast(overrides, ctypes.c_void_p)
    params.n_gpu_layers = placement.gpu_layers
    if placement.gpu_layers == 0:
        # Else the library computes prompts on a graphics device even so, and takes hundreds of
        # MiB of its memory.
        params.split_mode, params.main_gpu = api.LLAMA_SPLIT_MODE_NONE, -1
    elif any(handle.kind == "rpc" for handle in handles()):
        return overrides, _spread(params, placement)
    return (overrides,)


def _spread(params: api.llama_model_params, placement: Placement) -> ctypes.Array[ctypes.c_void_p]:
    """Name the devices and how many layers each gets. A worker without layers is left alone."""
    given = list(_layers_by_device(placement))
    devices = (ctypes.c_void_p * (len(given) + 1))(*(pointer for pointer, _ in given), None)
    params.devices = ctypes.cast(devices, ctypes.c_void_p)
    if given:
        layers = split_of([number for _, number in given])
        split = (ctypes.c_float * api.llama_max_devices())(*layers)
        params.tensor_split = ctypes.cast(split, ctypes.POINTER(ctypes.c_float))
    return devices


def _layers_by_device(placement: Placement) -> Iterator[tuple[int, float]]:
    """Devices by their pointers, workers first. ALL_LAYERS are all on graphics devices."""
    workers = (handle for handle in handles() if handle.kind == "rpc")
    for worker, layers in zip(workers, placement.worker_layers, strict=False):
        if layers:
            yield worker.pointer, layers
    rest = abs(placement.gpu_layers) - sum(placement.worker_layers)
    graphics = [handle for handle in handles() if handle.kind not in {"cpu", "rpc"}]
    if rest:
        # As llama.cpp itself spreads layers over graphics devices: by their free memory.
        free = [handle.info.free_bytes or 1 for handle in graphics]
        for device, own_free in zip(graphics, free, strict=True):
            yield device.pointer, rest * own_free / sum(free)


def split_of(layers: Sequence[float]) -> list[float]:
    """llama.cpp's split for so many layers on each device.

    It gives layer i of n to the first device whose part of the running sum is above i / n.
    Borders half a layer early are the same for it, however the sums are rounded.
    """
    *inner, total = accumulate(layers)
    borders = [*(number - 0.5 for number in inner), total]
    return [border - before for before, border in zip([0.0, *borders], borders, strict=False)]


def _overrides(placement: Placement) -> ctypes.Array[Override]:
    """One for each pattern of tensors that stay here, and an empty one that ends them."""
    lib.ggml_backend_cpu_buffer_type.restype = ctypes.c_void_p
    on_host = lib.ggml_backend_cpu_buffer_type()
    patterns = kept_here(placement)
    return (Override * (len(patterns) + 1))(*(Override(one, on_host) for one in patterns))


def kept_here(placement: Placement) -> list[bytes]:
    """Patterns of tensors that are not where their layers are."""
    patterns = [_EXPERTS % layer for layer in range(placement.host_experts)]
    return [*patterns, _OUTPUT] if placement.keeps_output else patterns
