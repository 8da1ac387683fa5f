"""PyInstaller: llama.cpp's libraries, from the build that packaging/edgekv.spec names.

The bindings open libllama by its path in their own folder, and ggml looks for the library of a
processor beside itself, so all of them stay together in llama_cpp/lib. PyInstaller's own search
finds neither.
"""

from __future__ import annotations

import os
from pathlib import Path

from PyInstaller.utils.hooks import get_package_paths

_built = os.environ.get("EDGEKV_LLAMA_LIBRARIES")
_folder = Path(_built) if _built else Path(get_package_paths("llama_cpp")[1]) / "lib"

binaries = [
    (str(path), "llama_cpp/lib")
    for path in sorted(_folder.iterdir())
    if ".so" in path.suffixes or path.suffix in {".dylib", ".dll"}
]
hiddenimports = ["llama_cpp.llama_cpp"]
