"""What the llama.cpp of this machine is: its version, files and devices, what it computes with.

Asked of a process of its own, `edgekv library`, since a library built for another processor ends
whoever loads it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import llama_cpp
import msgspec
from llama_cpp import llama_cpp as api

from edgekv.budget.nvidia import driver, read_nvidia
from edgekv.core.library import LibraryFacts
from edgekv.errors import Unavailable
from edgekv.llama import library, rpc
from edgekv.llama.library import lib

_OURS = ("libllama", "libggml", "libgomp", "libomp", "libcuda", "llama.dll", "ggml")
"""What the names of the interesting libraries begin with."""


def main() -> None:
    """Print `LibraryFacts` as JSON. Whatever is said besides goes to stderr."""
    out = os.dup(1)
    os.dup2(2, 1)
    os.write(out, msgspec.json.encode(describe()))


def describe() -> LibraryFacts:
    """Raises `Unavailable` for a library that nobody has checked."""
    library.start()
    return LibraryFacts(
        version=llama_cpp.__version__,
        path=str(Path(lib._name).resolve()),
        loaded=tuple(_loaded_files()),
        backends=tuple(_backends()),
        features=frozenset(_features(api.llama_print_system_info().decode())),
        devices=library.devices(),
        nvidia=read_nvidia(driver()),
        has_bundled_path=Path(llama_cpp.__file__).parent in Path(lib._name).parents,
        glibc=os.confstr("CS_GNU_LIBC_VERSION") if sys.platform == "linux" else None,
    )


def _backends() -> Iterator[str]:
    # Loaded only where it is wanted, so it has to be asked for here.
    with contextlib.suppress(Unavailable):
        rpc.load_backend()
    lib.ggml_backend_reg_get.argtypes = [ctypes.c_size_t]
    lib.ggml_backend_reg_get.restype = ctypes.c_void_p
    lib.ggml_backend_reg_name.argtypes = [ctypes.c_void_p]
    lib.ggml_backend_reg_name.restype = ctypes.c_char_p
    for number in range(lib.ggml_backend_reg_count()):
        yield lib.ggml_backend_reg_name(lib.ggml_backend_reg_get(number)).decode()


def _features(info: str) -> Iterator[str]:
    """The names behind "CPU : " in "CPU : AVX = 1 | AVX2 = 1 | "."""
    for part in info.split("|"):
        name, _, value = part.rpartition("=")
        if value.strip() == "1":
            yield name.rpartition(":")[2].strip()


def _loaded_files() -> Iterator[str]:
    """The files that are mapped into this process, where the system tells."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return
    paths = {line.split(maxsplit=5)[5] for line in lines if "/" in line}
    yield from sorted(path for path in paths if Path(path).name.startswith(_OURS))
