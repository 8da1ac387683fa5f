"""Compiles llama.cpp once for many processors: a folder of libraries for packaging/bundle.py.

    python packaging/build_library.py --out build/llama
    python packaging/build_library.py --out build/llama --variants "haswell zen4" -- -DGGML_CUDA=ON

The source is that of the pinned llama-cpp-python, so that libraries and bindings agree. Every
processor variant is a library of its own (GGML_BACKEND_DL), and the best that runs is loaded at
start. Variants the compiler is too old for are left out with --variants.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from libraries import gather

REPOSITORY = Path(__file__).resolve().parents[1]
X86_VARIANTS = (
    "sse42 sandybridge ivybridge haswell alderlake skylakex cascadelake icelake zen4 sapphirerapids"
)
"""ggml's names. sse42 is the floor, as it is numpy's; the others are what people still run."""
ARM_VARIANTS = "armv8.0_1 armv8.2_1 armv8.2_2 armv8.6_1 armv9.2_2"
APPLE_VARIANTS = "apple_m1 apple_m2_m3 apple_m4"

# RPATH, not RUNPATH: a libllama of LD_LIBRARY_PATH must not come before the one beside us.
LINKING = "-Wl,--disable-new-dtags" if sys.platform == "linux" else ""
OPTIONS = {
    "CMAKE_BUILD_TYPE": "Release",
    "BUILD_SHARED_LIBS": "ON",
    "CMAKE_BUILD_WITH_INSTALL_RPATH": "ON",
    "CMAKE_INSTALL_RPATH": "@loader_path" if sys.platform == "darwin" else "$ORIGIN",
    "CMAKE_SHARED_LINKER_FLAGS": LINKING,
    "CMAKE_MODULE_LINKER_FLAGS": LINKING,
    "GGML_NATIVE": "OFF",
    "GGML_BACKEND_DL": "ON",
    "GGML_CPU_ALL_VARIANTS": "ON",
    "GGML_RPC": "ON",
    "LLAMA_CURL": "OFF",
    "LLAMA_OPENSSL": "OFF",
    **{f"LLAMA_BUILD_{part}": "OFF" for part in ("COMMON", "TESTS", "TOOLS", "EXAMPLES", "SERVER")},
    "LLAMA_BUILD_APP": "OFF",
}


def main() -> None:
    asked = _arguments()
    source = llama_source(asked.work)
    _keep(source / "ggml/src/CMakeLists.txt", asked.variants.split())
    objects = asked.work / "objects"
    options = [f"-D{name}={value}" for name, value in OPTIONS.items()]
    _run("cmake", "-S", source, "-B", objects, *options, *asked.cmake)
    _run(
        "cmake",
        "--build",
        objects,
        "--config",
        "Release",
        f"-j{asked.jobs}",
        "--target",
        "llama",
        "ggml",
    )
    built = objects / "bin"
    gather(built / "Release" if sys.platform == "win32" else built, asked.out)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, required=True, help="folder for the libraries")
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build/llama-work")
    parser.add_argument("--variants", default=_usual_variants())
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("cmake", nargs="*", help="more options for CMake, behind --")
    return parser.parse_args()


def _usual_variants() -> str:
    if sys.platform == "darwin":
        return APPLE_VARIANTS
    return ARM_VARIANTS if platform.machine() in {"aarch64", "arm64"} else X86_VARIANTS


def llama_source(work: Path) -> Path:
    """llama.cpp as it came with the pinned bindings, fetched once."""
    pinned = re.search(
        r"^llama-cpp-python==(\S+)$", (REPOSITORY / "constraints.txt").read_text(), re.MULTILINE
    )
    assert pinned is not None
    folder = work / f"llama_cpp_python-{pinned[1]}"
    if not folder.exists():
        _run(
            sys.executable,
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--no-binary",
            "llama-cpp-python",  # and nothing that builds it
            "--dest",
            work,
            f"llama-cpp-python=={pinned[1]}",
        )
        with tarfile.open(work / f"{folder.name}.tar.gz") as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # since 3.11.4
            archive.extractall(work)
    return folder / "vendor/llama.cpp"


def _keep(cmake_file: Path, variants: Sequence[str]) -> None:
    """Take the variants out of ggml's list that are not wanted; it has no option for that."""

    def chosen(call: re.Match[str]) -> str:
        is_wanted = call[2] in variants
        return f"{call[1]}{'' if is_wanted else '# '}{call[3]}"

    text = cmake_file.read_text()
    line = r"^( *)(?:# )?(?=ggml_add_cpu_backend_variant\((\S+?)[ )])(.*)$"
    cmake_file.write_text(re.sub(line, chosen, text, flags=re.MULTILINE))


def _run(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True)


if __name__ == "__main__":
    main()
