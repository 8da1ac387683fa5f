"""Compiles llama.cpp's RPC backend beside an installed llama-cpp-python that lacks it.

    python packaging/build_rpc.py [--work build/llama-work]

A wheel of llama-cpp-python has no RPC backend. It is two files of C++ over ggml's public
library, so it is compiled alone, in seconds, and loaded when workers are asked for. The result
carries the version in its name: another llama-cpp-python takes no notice of it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from build_library import REPOSITORY, llama_source

FILES = ("ggml-rpc.cpp", "transport.cpp")
DEFINED = ("GGML_BACKEND_DL", "GGML_BACKEND_BUILD", "GGML_BACKEND_SHARED", "GGML_SHARED")
"""What ggml's own build defines for a backend that is loaded at run time."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build/llama-work")
    ggml = llama_source(parser.parse_args().work) / "ggml"
    folder = _library_folder()
    base, suffix = _base(folder)
    out = folder / f"libggml-rpc-{version('llama-cpp-python')}{suffix}"
    # Under another name until it is whole: an engine may look for it at any moment.
    unfinished = out.with_suffix(".unfinished")
    backend = ggml / "src/ggml-rpc"
    command = [
        os.environ.get("CXX", "c++"),
        *("-std=c++17", "-O2", "-fPIC", "-shared", "-pthread", "-D_GNU_SOURCE"),
        *(f"-D{name}" for name in DEFINED),
        *(f"-I{include}" for include in (ggml / "include", ggml / "src", backend)),
        *(backend / name for name in FILES),
        *("-o", unfinished, base),
        "-Wl,-rpath,@loader_path" if sys.platform == "darwin" else "-Wl,-rpath,$ORIGIN",
    ]
    subprocess.run(command, check=True)
    unfinished.rename(out)
    print(out)  # noqa: T201


def _library_folder() -> Path:
    """Where the installed bindings have their libraries. Importing them would load those."""
    spec = find_spec("llama_cpp")
    if spec is None or spec.origin is None:
        sys.exit("build_rpc: llama-cpp-python is not installed here; 'make' installs it.")
    return Path(spec.origin).parent / "lib"


def _base(folder: Path) -> tuple[Path, str]:
    """ggml's base library by the name that others need it by, and the suffix of libraries."""
    for name, suffix in (("libggml-base.so.0", ".so"), ("libggml-base.0.dylib", ".dylib")):
        if (folder / name).exists():
            return folder / name, suffix
    sys.exit(f"build_rpc: no ggml in {folder}; install llama-cpp-python as 'make' does.")


if __name__ == "__main__":
    main()
