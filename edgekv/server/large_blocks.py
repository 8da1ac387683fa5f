"""Large blocks of memory, kept out of the heap: so a server does not grow with its requests."""

from __future__ import annotations

import ctypes
import sys

MMAP_THRESHOLD = -3
"""M_MMAP_THRESHOLD of glibc's malloc.h."""
LARGE_BYTES = 128 * 1024
"""glibc's own threshold at the start of a process."""


def keep_large_blocks_apart() -> None:
    """Let glibc take each block of `LARGE_BYTES` or more from the system and give it back when it
    is freed, for the life of this process. With another library nothing is done.

    By itself glibc raises the threshold to the size of whatever block was freed (mallopt(3)), up to
    32 MiB. asyncio reads every request and every frame into a block of 256 KiB and cuts it to what
    came: what is made of that comes to lie in the rest of the block, the next read takes another
    one behind it, and the heap gets longer with holes that no read fits into.
    """
    if sys.platform != "linux":
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):  # musl has none, and no heap with such holes
        library.mallopt(MMAP_THRESHOLD, LARGE_BYTES)
