"""Lends devices of this machine to whoever connects: llama.cpp's RPC server, held to a limit.

The server asks a device how much memory it has and takes as much as a client wants. So what it
asks is answered here: a device has what may be lent of it, and no buffer goes beyond that. The
entries that are replaced lie in structs that no public header has; each is checked before.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgekv.errors import Unavailable
from edgekv.llama import library
from edgekv.llama.library import Handle, handles, lib
from edgekv.llama.rpc import backend_function, load_backend

_Size = ctypes.POINTER(ctypes.c_size_t)
_GetName = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)
_GetMemory = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _Size, _Size)
_AllocBuffer = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_FreeBuffer = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Device(ctypes.Structure):
    """The beginning of ggml's `ggml_backend_device_i`."""

    _fields_ = [
        ("get_name", _GetName),
        ("get_description", ctypes.c_void_p),
        ("get_memory", _GetMemory),
    ]


class _BufferType(ctypes.Structure):
    """The beginning of ggml's `ggml_backend_buffer_type_i`."""

    _fields_ = [("get_name", _GetName), ("alloc_buffer", _AllocBuffer)]


class _Buffer(ctypes.Structure):
    """The beginning of ggml's `ggml_backend_buffer_i`."""

    _fields_ = [("free_buffer", _FreeBuffer)]


def lend(host: str, port: int, limits: Mapping[str, int], num_threads: int) -> None:
    """Serve one client after the other, for ever; returns where nothing can be listened on.

    `limits` are the devices to lend, by ggml's names, with the bytes that may be taken of each.
    `host` is an IPv4 address. Raises `Unavailable` where the library is not as it should be.
    """
    library.start()
    load_backend()
    lent = [Lent(handle, limits[name]) for handle in handles() if (name := _name(handle)) in limits]
    devices = (ctypes.c_void_p * len(lent))(*(one.pointer for one in lent))
    start = backend_function(
        b"ggml_backend_rpc_start_server",
        None,
        *(ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p),
    )
    start(f"{host}:{port}".encode(), None, num_threads, len(lent), devices)


def _name(handle: Handle) -> str:
    name: bytes = lib.ggml_backend_dev_name(handle.pointer)
    return name.decode()


class Lent:
    """One device, and how much of it was taken. Lives as long as the process."""

    def __init__(self, handle: Handle, limit_bytes: int) -> None:
        """Raises `Unavailable` if ggml's structs are laid out in another way than is believed."""
        self.pointer, self._limit, self._used = handle.pointer, limit_bytes, 0
        lib.ggml_backend_dev_buffer_type.argtypes = [ctypes.c_void_p]
        lib.ggml_backend_dev_buffer_type.restype = ctypes.c_void_p
        buffer_type = lib.ggml_backend_dev_buffer_type(handle.pointer)
        device, kind = _Device.from_address(handle.pointer), _BufferType.from_address(buffer_type)
        _check_name(lib.ggml_backend_dev_name, handle.pointer)
        _check_name(lib.ggml_backend_buft_name, buffer_type)
        _check_memory(device, handle)
        self._alloc = _AllocBuffer.from_buffer_copy(kind.alloc_buffer)
        self._frees: dict[int, tuple[Callable[[int], None], int]] = {}
        self._kept: Sequence[Callable[..., Any]] = (
            _GetMemory(self._tell),
            _AllocBuffer(self._give),
            _FreeBuffer(self._take_back),
        )
        device.get_memory, kind.alloc_buffer = self._kept[:2]

    def _tell(self, _: int, free: Any, total: Any) -> None:
        free[0], total[0] = self._limit - self._used, self._limit

    def _give(self, buffer_type: int, size: int) -> int | None:
        if self._used + size > self._limit:
            return None
        pointer: int | None = self._alloc(buffer_type, size)
        if pointer:
            buffer = _Buffer.from_address(pointer)
            self._frees[pointer] = _FreeBuffer.from_buffer_copy(buffer.free_buffer), size
            buffer.free_buffer = self._kept[2]
            self._used += size
        return pointer

    def _take_back(self, pointer: int) -> None:
        free, size = self._frees.pop(pointer)
        self._used -= size
        free(pointer)


def _check_name(public: Any, address: int) -> None:
    """The first entry of a struct at `address` must be the function behind `public`."""
    public.argtypes, public.restype = [ctypes.c_void_p], ctypes.c_char_p
    entry = ctypes.c_void_p.from_address(address).value or 0
    _insist(entry != 0 and _GetName(entry)(address) == public(address))


def _check_memory(device: _Device, handle: Handle) -> None:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    device.get_memory(handle.pointer, ctypes.byref(free), ctypes.byref(total))
    _insist(total.value == handle.info.total_bytes)


def _insist(is_as_believed: bool) -> None:
    if not is_as_believed:
        raise Unavailable(
            f"The library {lib._name} is laid out in another way than this EdgeKV knows, so it "
            "cannot lend memory; install llama-cpp-python as 'edgekv doctor' says."
        )
