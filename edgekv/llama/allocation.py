"""What the library allocated, or in a dry run would allocate, by device and purpose.

Weights, cells and compute buffers come byte-exact from `llama_get_memory_breakdown`. It is a C++
function, reached by its mangled name and walked as libstdc++ lays out a `std::map`; with another
C++ library (anywhere but on Linux) the sizes come from the log, to 0.01 MiB. KV and recurrent
state are told apart by the log alone.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from msgspec.structs import replace

from edgekv.core.plan import Allocation, BufferSize, Label
from edgekv.llama import rpc
from edgekv.llama.library import lib

Lines: TypeAlias = list[tuple[int, str]]
"""What the library logged: (level, line)."""

_MIB = 1024 * 1024

_ROUNDED = 0.0051 * _MIB
"""What the log rounds away."""

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


@dataclass(frozen=True, slots=True)
class Formulas:
    """What closed formulas say of sizes that the log alone tells, rounded to 0.01 MiB.

    Where one agrees with the log it is exact; where it does not, the log is right.
    """

    output_bytes: int
    state_bytes: int = 0


def measured(context: int, lines: Lines, formulas: Formulas) -> Allocation:
    """The allocation of an open context (a `llama_context` pointer) and its load log."""
    shares = _breakdown(context)
    if shares is None:
        return Allocation(tuple(_from_log(lines)))
    return _exact(shares, lines, formulas)


def simulated(context: int, lines: Lines, formulas: Formulas, *, weight_bytes: int) -> Allocation:
    """The allocation of a context opened with `no_alloc`, whose log prints 0.00 for weights and
    for KV per device.
    """
    shares = _breakdown(context)
    if shares is not None:
        return _exact(shares, lines, formulas)
    kv, recurrent = _cache_bytes(lines, "kv_cache"), _cache_bytes(lines, "memory_recurrent")
    guess = (("weights", weight_bytes), ("kv", kv), ("recurrent", recurrent))
    plain = [BufferSize("CPU", label, size) for label, size in guess if size]  # type: ignore[arg-type]
    printed = [b for b in _from_log(lines) if b.label in {"compute", "output"}]
    return Allocation((*plain, *printed))


def without_gaps(allocation: Allocation, tensor_bytes: int) -> Allocation:
    """The same, with a mapped file counted by the tensors that are used from there.

    The library counts a mapping from the first of them to the last, with all between them that
    lie on other devices. `tensor_bytes` is what all tensors take, wherever they are.
    """
    weights = [buffer for buffer in allocation.buffers if buffer.label == "weights"]
    used = tensor_bytes - sum(buffer.bytes for buffer in weights if not buffer.mapped)
    if all(buffer.device == "CPU" for buffer in weights):
        return allocation
    return Allocation(
        tuple(
            replace(buffer, bytes=min(buffer.bytes, used)) if buffer.mapped else buffer
            for buffer in allocation.buffers
        )
    )


def of_embeddings(allocation: Allocation, *, output_bytes: int) -> tuple[BufferSize, ...]:
    """What a context that embeds adds to the answers' one, as one buffer a device.

    Its output buffer grows to `output_bytes` with the first text.
    """
    sizes: dict[str, int] = {}
    for buffer in allocation.buffers:
        if buffer.label != "weights":
            size = output_bytes if buffer.label == "output" else buffer.bytes
            sizes[buffer.device] = sizes.get(buffer.device, 0) + size
    return tuple(BufferSize(device, "embedding", size) for device, size in sizes.items())


def _exact(shares: list[_Share], lines: Lines, formulas: Formulas) -> Allocation:
    buffers = [b for share in shares for b in _buffers(share)]
    recurrent = _agreed(formulas.state_bytes, _cache_bytes(lines, "memory_recurrent"))
    context_bytes = sum(share.context for share in shares)
    for share in shares:
        if share.context:
            # The library tells cells and state apart by device only in its log.
            state = min(share.context, recurrent * share.context // context_bytes)
            sizes: tuple[tuple[Label, int], ...] = (
                ("kv", share.context - state),
                ("recurrent", state),
            )
            device = _device(share.buffer_type)
            buffers += [BufferSize(device, label, size) for label, size in sizes if size]
    return Allocation((*buffers, *_outputs(lines, formulas.output_bytes)))


def _outputs(lines: Lines, formula: int) -> Iterator[BufferSize]:
    printed = [b for b in _from_log(lines) if b.label == "output"]
    for buffer in printed or [BufferSize("CPU", "output", 0)]:  # too small a one is not printed
        yield replace(buffer, bytes=_agreed(formula, buffer.bytes))


def _agreed(formula: int, printed: int) -> int:
    return formula if abs(formula - printed) <= _ROUNDED else printed


def _buffers(share: _Share) -> Iterator[BufferSize]:
    device = _device(share.buffer_type)
    if share.model:
        mapped = share.buffer_type.endswith("_Mapped")
        yield BufferSize(device, "weights", share.model, mapped, share.buffer_type)
    if share.compute:
        yield BufferSize(device, "compute", share.compute, False, share.buffer_type)


def _from_log(lines: Lines) -> Iterator[BufferSize]:
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


def _cache_bytes(lines: Lines, kind: str) -> int:
    matches = (_CACHE_LINE.search(line) for _, line in lines)
    return round(sum(float(m["mib"]) for m in matches if m and m["kind"] == kind) * _MIB)


def _device(buffer_type: str) -> str:
    """The device a ggml buffer type lives on: "CPU_REPACK", "CUDA_Host" and "AMX", the layout for
    Intel's tiles, are host memory.
    """
    if (device := rpc.device_of(buffer_type)) is not None:
        return device
    if buffer_type == "AMX" or buffer_type.endswith("_Host"):
        return "CPU"
    return buffer_type.split("_")[0]


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
    if sys.platform != "linux":
        return None
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
