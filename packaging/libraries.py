"""Gathers llama.cpp's libraries from where a build left them: each once, as others look for it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

NUMBERED = re.compile(r"^([a-z-]+)(\.so)\.\d+$|^([a-z-]+)\.\d+(\.dylib)$")
"""libggml.so.0, libggml.0.dylib: what a library is called by those that were linked with it."""
PLAIN = re.compile(r"^(lib)?(llama|ggml[\w.-]*)\.(so|dylib|dll)$")
"""libllama.so, which the bindings open; libggml-cpu-armv8.2_1.so, which ggml finds by itself."""


def gather(built: Path, out: Path) -> None:
    """A file and, for the bindings, a link to it; what stands in `out` before is gone.

    In a build the names of a library are links. In an installed package they are copies, and ggml
    opened by two of them registers its devices twice.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    libraries = {library.name: library for library in sorted(built.iterdir())}
    for name, library in libraries.items():
        number = NUMBERED.match(name)
        plain = "".join(filter(None, number.groups())) if number else ""
        if PLAIN.match(plain):
            _copy(library, out)
            (out / plain).symlink_to(name)
    for name, library in libraries.items():
        if PLAIN.match(name) and not (out / name).exists() and not _is_full_name(name):
            _copy(library, out)


def _is_full_name(name: str) -> bool:
    """libggml.0.25.3.dylib, under which nobody looks for it."""
    return bool(re.search(r"\.\d+\.\d+\.dylib$", name))


def _copy(library: Path, out: Path) -> None:
    copy = shutil.copy2(library.resolve(), out / library.name)
    if sys.platform == "linux":
        subprocess.run(["strip", "--strip-unneeded", copy], check=True)
