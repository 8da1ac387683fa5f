"""What the library allocated, or in a dry run would allocate, by device and purpose.

Weights and compute buffers come byte-exact from `llama_get_memory_breakdown`. It is a C++
function, reached by its mangled name and walked as libstdc++ lays out a `std::map`; where that
symbol is absent (other C++ libraries) the sizes come from the log, to 0.01 MiB. KV, recurrent
state and output come from the log, which is the only place that tells them apart.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass

from edgekv.core.plan import Allocation, BufferSize, Label
from edgekv.llama.library import lib

_MIB = 1024 * 1024

_BREAKDOWN = "_Z26llama_get_memory_breakdownPK13llama_context"

_BUFFER_LINE = re.compile(
    r"(?P<device>\S+)\s+(?P<kind>model|output|KV|RS|compute) buffer size\s*=\s*(?P<mib>[\d.]+) MiB"
)
_CACHE_LINE = re.compile(
    r"llama_(?P<kind>kv_cache|memory_recurrent)\w*: size =\s*(?P<mib>[\d.]+) MiB"
)
_LABELS: dict[str, Label] = {
    "model": "weights",
    "output": "output",
    "KV": "kv",
    "RS": "recurrent",
    "compute": "compute",
}


@dataclass(frozen=True, slots=True)
class _Share:
    """One row of the breakdown: bytes of one buffer type."""

    buffer_type: str
    model: int
    context: int
    compute: int


def measured(context: int, lines: list[tuple[int, str]]) -> Allocation:
    """The allocation of an open context (a `llama_context` pointer) and its load log."""
    from_log = list(_from_log(lines))
    shares = _breakdown(context)
    if shares is None:
        return Allocation(tuple(from_log))
    exact = [b for share in shares for b in _buffers(share)]
    return Allocation((*exact, *(b for b in from_log if b.label not in {"weights", "compute"})))


def simulated(context: int, lines: list[tuple[int, str]], *, weight_bytes: int) -> Allocation:
    """The allocation of a context opened with `no_alloc`.

    Its log prints 0.00 for weights and KV per device. KV per device then comes from the
    breakdown's context column, and its split between KV and recurrent state from the cache
    lines, which print the true totals.
    """
    output = [b for b in _from_log(lines) if b.label == "output"]
    recurrent = _cache_bytes(lines, "memory_recurrent")
    shares = _breakdown(context)
    if shares is None:
        kv = _cache_bytes(lines, "kv_cache")
        compute = [b for b in _from_log(lines) if b.label == "compute"]
        guess = (("weights", weight_bytes), ("kv", kv), ("recurrent", recurrent))
        plain = [BufferSize("CPU", label, size) for label, size in guess if size]  # type: ignore[arg-type]
        return Allocation((*plain, *compute, *output))
    buffers = [b for share in shares for b in _buffers(share)]
    context_bytes = sum(share.context for share in shares)
    for share in shares:
        if share.context:
            state = recurrent * share.context // context_bytes
            buffers.append(BufferSize(_device(share.buffer_type), "kv", share.context - state))
            if state:
                buffers.append(BufferSize(_device(share.buffer_type), "recurrent", state))
    return Allocation((*buffers, *output))


def _buffers(share: _Share) -> Iterator[BufferSize]:
    device = _device(share.buffer_type)
    if share.model:
        mapped = share.buffer_type.endswith("_Mapped")
        yield BufferSize(device, "weights", share.model, mapped, share.buffer_type)
    if share.compute:
        yield BufferSize(device, "compute", share.compute, False, share.buffer_type)


def _from_log(lines: list[tuple[int, str]]) -> Iterator[BufferSize]:
    for _, line in lines:
        match = _BUFFER_LINE.search(line)
        if match and float(match["mib"]) > 0:
            name = match["device"]
            yield BufferSize(
                device=_device(name),
                label=_LABELS[match["kind"]],
                bytes=round(float(match["mib"]) * _MIB),
                mapped=name.endswith("_Mapped"),
                buffer_type=name,
            )


def _cache_bytes(lines: list[tuple[int, str]], kind: str) -> int:
    matches = (_CACHE_LINE.search(line) for _, line in lines)
    return round(sum(float(m["mib"]) for m in matches if m and m["kind"] == kind) * _MIB)


def _device(buffer_type: str) -> str:
    """The device a ggml buffer type lives on: "CPU_REPACK" and "CUDA_Host" are host memory."""
    name = buffer_type.split("[")[0]
    if name.endswith("_Host"):
        return "CPU"
    return name.split("_")[0]


class _Map(ctypes.Structure):
    """libstdc++'s `std::map`: a comparator word, the header node (colour, root, ends), a count."""

    _fields_ = [
        ("compare", ctypes.c_uint64),
        ("colour", ctypes.c_uint64),
        ("root", ctypes.c_uint64),
        ("leftmost", ctypes.c_uint64),
        ("rightmost", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
    ]


class _Node(ctypes.Structure):
    """A red-black node of the map: links, then the key (a buffer type) and three sizes."""

    _fields_ = [
        ("colour", ctypes.c_uint64),
        ("parent", ctypes.c_uint64),
        ("left", ctypes.c_uint64),
        ("right", ctypes.c_uint64),
        ("buffer_type", ctypes.c_uint64),
        ("model", ctypes.c_uint64),
        ("context", ctypes.c_uint64),
        ("compute", ctypes.c_uint64),
    ]


def _breakdown(context: int) -> list[_Share] | None:
    try:
        function = lib[_BREAKDOWN]
    except AttributeError:
        return None
    function.argtypes, function.restype = [ctypes.c_void_p], _Map
    # The map is returned by value and never destroyed: a few hundred bytes a call stay behind.
    return list(_walk(function(context).root))


def _walk(address: int) -> Iterator[_Share]:
    if not address:
        return
    node = _Node.from_address(address)
    yield from _walk(node.left)
    name = lib["ggml_backend_buft_name"]
    name.argtypes, name.restype = [ctypes.c_void_p], ctypes.c_char_p
    yield _Share(name(node.buffer_type).decode(), node.model, node.context, node.compute)
    yield from _walk(node.right)
