"""What the inference library of this machine is, for those who may not load it."""

from __future__ import annotations

import msgspec

from edgekv.core.nvidia import NvidiaDevice
from edgekv.core.plan import DeviceInfo

TESTED_VERSIONS = ("0.3.36",)
"""Releases of llama-cpp-python whose structs the adapter was checked against, the newest last."""

RPC = "RPC"
"""ggml's name of the backend that lends devices to other machines, and uses theirs."""
BUILD_RPC = (
    "compile it with 'make rpc' in a clone of EdgeKV, or with CMAKE_ARGS=-DGGML_RPC=ON pip install "
    f"--force-reinstall --no-cache-dir llama-cpp-python=={TESTED_VERSIONS[-1]}"
)
"""How to get that backend."""
WITHOUT_RPC = f"This llama.cpp was built without its RPC backend, which workers need; {BUILD_RPC}."


class LibraryFacts(msgspec.Struct, frozen=True):
    version: str
    path: str
    loaded: tuple[str, ...]
    """The library's own files and those that it computes with, as far as the system tells."""
    backends: tuple[str, ...]
    features: frozenset[str]
    """The instruction sets and options it was built with, in ggml's words: AVX2, NEON, OPENMP."""
    devices: tuple[DeviceInfo, ...]
    has_bundled_path: bool
    """Whether it lies in its Python package, not somewhere the environment names."""
    glibc: str | None
    """The C library of this machine; None where it is another one."""
    nvidia: tuple[NvidiaDevice, ...] = ()
    """What NVIDIA's driver knows of, hidden from the library or not."""
