"""What saved cells depend on beside their tokens, as a name."""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path

import llama_cpp

from edgekv.core.plan import Opening

SAMPLE_BYTES = 1024 * 1024


def state_key(opening: Opening) -> str:
    """32 hexadecimal digits that differ between library versions, models and KV types.

    A model is known by its size and its first and last MiB, the header and some weights, for
    reading gigabytes would hold up every start.
    """
    choice = opening.choice
    layout = (
        llama_cpp.__version__,
        choice.kv_type_k,
        choice.kv_type_v,
        # Both decide how values lie in memory.
        choice.flash_attention,
        choice.swa_full,
    )
    digest = blake2b(repr(layout).encode(), digest_size=16)
    with Path(opening.path).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        digest.update(size.to_bytes(8, "little"))
        for start in (0, max(0, size - SAMPLE_BYTES)):
            file.seek(start)
            digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()
