"""What of a model's weights is read to compute one token: what its speed hangs on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_EXPERTS = re.compile(r"blk\.\d+\.ffn_\w+_exps\.")
"""Stacks of experts, a few of which compute a token. Shared ones, `_shexp`, always do."""
_LOOKED_UP = ("per_layer_token_embd.weight",)
"""Tables of which a token needs one row."""
_WORDS, _OUTPUT = "token_embd.weight", "output.weight"


def active_bytes(tensors: Iterable[tuple[str, int]], metadata: Mapping[str, str]) -> int:
    """Of tensors, each a name and its bytes as stored.

    The table of words is read row by row, unless it is the output matrix as well. Names as in
    llama.cpp's `llama-arch.cpp`.
    """
    sizes = dict(tensors)
    looked_up = {*_LOOKED_UP, *([_WORDS] if _OUTPUT in sizes else [])}
    of_experts = sum(size for name, size in sizes.items() if _EXPERTS.match(name))
    always = sum(size for name, size in sizes.items() if name not in looked_up) - of_experts
    used, experts = _count(metadata, "expert_used_count"), _count(metadata, "expert_count")
    if not used or not experts:
        return always + of_experts
    return always + of_experts * min(used, experts) // experts


def _count(metadata: Mapping[str, str], key: str) -> int:
    text = metadata.get(f"{metadata.get('general.architecture', '')}.{key}", "")
    return int(text) if text.isdigit() else 0
