"""Names for the blocks of a prompt that tell which prompts begin alike, and nothing else."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import blake2b

BLOCK_TOKENS = 16
"""So that the beginning that short questions to a chat share is seen, too."""
ID_BYTES = 6
"""Of a block's id, so that JSON readers that know only doubles read it exactly. Among a million
blocks two share an id by chance once in 560 recordings."""


def block_ids(tokens: Sequence[int], salt: bytes) -> tuple[int, ...]:
    """One id for each started block; each depends on everything before it and on the salt.

    `salt` is at most 64 bytes, and random, so that nobody can find out whether a text that they
    know was among the prompts.
    """
    found: list[int] = []
    chain = b""
    for start in range(0, len(tokens), BLOCK_TOKENS):
        block = array("q", tokens[start : start + BLOCK_TOKENS]).tobytes()
        chain = blake2b(chain + block, digest_size=32, key=salt).digest()
        found.append(int.from_bytes(chain[:ID_BYTES], "little"))
    return tuple(found)
