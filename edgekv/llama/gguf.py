"""A GGUF header through ggml's own reader: metadata and tensor sizes, no weights.

llama.cpp's model functions leave arrays out of the metadata, and those hold the per-layer
widths that the budget needs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from edgekv.llama.library import lib

_STRING, _ARRAY = 8, 9
_SCALARS: dict[int, tuple[str, Any]] = {
    0: ("u8", ctypes.c_uint8),
    1: ("i8", ctypes.c_int8),
    2: ("u16", ctypes.c_uint16),
    3: ("i16", ctypes.c_int16),
    4: ("u32", ctypes.c_uint32),
    5: ("i32", ctypes.c_int32),
    6: ("f32", ctypes.c_float),
    7: ("bool", ctypes.c_bool),
    10: ("u64", ctypes.c_uint64),
    11: ("i64", ctypes.c_int64),
    12: ("f64", ctypes.c_double),
}
"""gguf_type → the suffix of its `gguf_get_val_…` and its C type."""

_MAX_ARRAY = 4096
"""Longer arrays are vocabularies, which the library reads itself."""


@dataclass(frozen=True, slots=True)
class Header:
    metadata: dict[str, str]
    """Scalars and texts as they are, short arrays as "[a, b, …]", booleans as true/false."""
    tensor_bytes: int
    """Sum of the tensors as stored."""
    file_bytes: int
    """Where the last tensor ends; a shorter file is cut."""
    num_tensors: int
    tensors: tuple[tuple[str, int], ...]
    """Each one's name and bytes."""

    @property
    def spread_bytes(self) -> int:
        """What all tensors take where the output lies on another device than the words: a tensor
        that is both is there twice.
        """
        sizes = dict(self.tensors)
        is_both = "output.weight" not in sizes
        return self.tensor_bytes + (sizes.get("token_embd.weight", 0) if is_both else 0)


class _InitParams(ctypes.Structure):
    _fields_ = [("no_alloc", ctypes.c_bool), ("context", ctypes.c_void_p)]


def read_header(path: str) -> Header | None:
    """The header of the GGUF file at `path`, or None if ggml cannot read it (its log says why)."""
    functions = _functions()
    handle = functions["gguf_init_from_file"](path.encode(), _InitParams(no_alloc=True))
    if not handle:
        return None
    try:
        return _read(functions, handle)
    finally:
        functions["gguf_free"](handle)


def _read(functions: dict[str, Callable[..., Any]], handle: int) -> Header:
    metadata = {}
    for i in range(functions["gguf_get_n_kv"](handle)):
        value = _value(functions, handle, i)
        if value is not None:
            metadata[functions["gguf_get_key"](handle, i).decode("utf-8", "replace")] = value
    tensors, end = [], 0
    for i in range(functions["gguf_get_n_tensors"](handle)):
        size = functions["gguf_get_tensor_size"](handle, i)
        name = functions["gguf_get_tensor_name"](handle, i).decode("utf-8", "replace")
        tensors.append((name, size))
        end = max(end, functions["gguf_get_tensor_offset"](handle, i) + size)
    return Header(
        metadata,
        tensor_bytes=sum(size for _, size in tensors),
        file_bytes=functions["gguf_get_data_offset"](handle) + end,
        num_tensors=len(tensors),
        tensors=tuple(tensors),
    )


def _value(functions: dict[str, Callable[..., Any]], handle: int, index: int) -> str | None:
    kind = functions["gguf_get_kv_type"](handle, index)
    if kind == _STRING:
        text: bytes = functions["gguf_get_val_str"](handle, index)
        return text.decode("utf-8", "replace")
    if kind == _ARRAY:
        return _array(functions, handle, index)
    suffix, _ = _SCALARS[kind]
    value = functions[f"gguf_get_val_{suffix}"](handle, index)
    return _text(value)


def _array(functions: dict[str, Callable[..., Any]], handle: int, index: int) -> str | None:
    kind = functions["gguf_get_arr_type"](handle, index)
    length = functions["gguf_get_arr_n"](handle, index)
    if kind not in _SCALARS or length > _MAX_ARRAY:
        return None
    if length == 0:
        return "[]"
    c_type = _SCALARS[kind][1]
    data = (c_type * length).from_address(functions["gguf_get_arr_data"](handle, index))
    return "[" + ", ".join(_text(value) for value in data) + "]"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def _functions() -> dict[str, Callable[..., Any]]:
    handle, index = ctypes.c_void_p, ctypes.c_int64
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "gguf_init_from_file": (handle, [ctypes.c_char_p, _InitParams]),
        "gguf_free": (None, [handle]),
        "gguf_get_n_kv": (index, [handle]),
        "gguf_get_key": (ctypes.c_char_p, [handle, index]),
        "gguf_get_kv_type": (ctypes.c_int, [handle, index]),
        "gguf_get_val_str": (ctypes.c_char_p, [handle, index]),
        "gguf_get_arr_type": (ctypes.c_int, [handle, index]),
        "gguf_get_arr_n": (ctypes.c_size_t, [handle, index]),
        "gguf_get_arr_data": (handle, [handle, index]),
        "gguf_get_n_tensors": (index, [handle]),
        "gguf_get_tensor_name": (ctypes.c_char_p, [handle, index]),
        "gguf_get_tensor_size": (ctypes.c_size_t, [handle, index]),
        "gguf_get_tensor_offset": (ctypes.c_size_t, [handle, index]),
        "gguf_get_data_offset": (ctypes.c_size_t, [handle]),
    }
    for suffix, c_type in _SCALARS.values():
        signatures[f"gguf_get_val_{suffix}"] = (c_type, [handle, index])
    functions: dict[str, Callable[..., Any]] = {}
    for name, (result, arguments) in signatures.items():
        function = lib[name]  # a fresh object, so other users' declarations stay untouched
        function.restype, function.argtypes = result, arguments
        functions[name] = function
    return functions
