"""What saved cells depend on beside their tokens, as a name."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import llama_cpp

from edgekv.core.plan import Opening
from edgekv.kv.model_digest import model_digest


def state_key(opening: Opening) -> str:
    """32 hexadecimal digits that differ between library versions, models, adapters and KV types."""
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
    digest.update(model_digest(Path(opening.path)))
    for adapter in opening.adapters:
        digest.update(model_digest(Path(adapter.path)) + repr(adapter.scale).encode())
    return digest.hexdigest()
