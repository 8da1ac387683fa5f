"""What the inference library of this machine is, for those who may not load it."""

from __future__ import annotations

import msgspec

from edgekv.core.plan import DeviceInfo

TESTED_VERSIONS = ("0.3.36",)
"""Releases of llama-cpp-python whose structs the adapter was checked against, the newest last."""


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
