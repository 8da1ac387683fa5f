"""What a server takes for large blocks, counted by glibc in a process of its own."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc guesses")

PROGRAM = """
import ctypes
from edgekv.server.large_blocks import keep_large_blocks_apart

class Taken(ctypes.Structure):  # struct mallinfo of malloc.h
    _fields_ = [(name, ctypes.c_int) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd",
        "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]

library = ctypes.CDLL(None)
library.mallinfo.restype = Taken
keep_large_blocks_apart()
block = bytearray(256 * 1024)  # what asyncio reads into
del block
before = library.mallinfo().hblkhd
block = bytearray(256 * 1024)
print(library.mallinfo().hblkhd - before)
"""


def test_large_blocks_stay_out_of_the_heap_even_after_one_was_freed() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    assert int(ran.stdout) >= 256 * 1024
