"""llama.cpp's RPC backend: devices that are in other machines.

Every call here ends the process if the other side is away, and waits for ever while it serves
somebody else. So whoever answers is asked first, elsewhere (`service/remote_workers.py`).
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

import llama_cpp

from edgekv.core.library import RPC, WITHOUT_RPC
from edgekv.errors import Unavailable
from edgekv.llama.library import folder, handles, lib

_BUFFER_TYPE = re.compile(r"RPC(\d+)\[(.+)\]")
_SUFFIX = {"darwin": "dylib", "win32": "dll"}.get(sys.platform, "so")


def load_backend() -> int:
    """The backend's registry. Raises `Unavailable` where there is none.

    Some builds bring it; beside others it lies as a library of its own (packaging/build_rpc.py).
    """
    lib.ggml_backend_reg_by_name.argtypes = [ctypes.c_char_p]
    lib.ggml_backend_load.argtypes = [ctypes.c_char_p]
    for function in (lib.ggml_backend_reg_by_name, lib.ggml_backend_load):
        function.restype = ctypes.c_void_p
    registry = lib.ggml_backend_reg_by_name(RPC.encode())
    path = folder() / f"libggml-rpc-{llama_cpp.__version__}.{_SUFFIX}"
    if not registry and path.exists():
        registry = lib.ggml_backend_load(os.fsencode(path))
    if not registry:
        raise Unavailable(WITHOUT_RPC)
    return int(registry)


def backend_function(name: bytes, result: type | None, *arguments: type) -> Callable[..., Any]:
    """A function that only the backend itself knows by name. Raises `Unavailable`."""
    get_address = lib.ggml_backend_reg_get_proc_address
    get_address.argtypes, get_address.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_void_p
    address = get_address(load_backend(), name)
    assert address, name
    return ctypes.CFUNCTYPE(result, *arguments)(address)


def connect(addresses: Iterable[str]) -> None:
    """Make the devices of workers (HOST:PORT) devices of this process, in this order."""
    for address in addresses:
        add_server = backend_function(
            b"ggml_backend_rpc_add_server", ctypes.c_void_p, ctypes.c_char_p
        )
        registry = add_server(address.encode())
        if not registry:
            raise Unavailable(f"The worker {address} lends no device; leave it out of --workers.")
        lib.ggml_backend_register.argtypes = [ctypes.c_void_p]
        lib.ggml_backend_register.restype = None
        lib.ggml_backend_register(registry)


def device_of(buffer_type: str) -> str | None:
    """The device whose buffers are called "RPC1[HOST:PORT]"; None for buffers of no worker.

    The number counts the devices of that worker, while a device's own counts all workers'.
    """
    match = _BUFFER_TYPE.fullmatch(buffer_type)
    if match is None:
        return None
    pointers = [handle.pointer for handle in handles() if handle.kind == "rpc"]
    here = [p for p in pointers if lib.ggml_backend_dev_description(p).decode() == match[2]]
    name: bytes = lib.ggml_backend_dev_name(here[int(match[1])])
    return name.decode()
