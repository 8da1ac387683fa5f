"""PyInstaller: llama.cpp's libraries, as packaging/bundle.py gathered them.

The bindings open libllama by its path in their own folder, and ggml looks for the library of a
processor beside itself, so all of them stay together in llama_cpp/lib. PyInstaller's own search
finds neither.
"""

from __future__ import annotations

import os
from pathlib import Path

_folder = Path(os.environ["EDGEKV_LLAMA_LIBRARIES"])

binaries = [(str(path), "llama_cpp/lib") for path in sorted(_folder.iterdir())]
hiddenimports = ["llama_cpp.llama_cpp"]
