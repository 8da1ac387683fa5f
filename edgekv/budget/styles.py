"""How a context may be opened, apart from its size: the best way first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from edgekv.budget.case import ENOUGH_CONTEXT, LONGEST_CONTEXT, Case
from edgekv.budget.formulas import fits_widths
from edgekv.budget.kv_types import KV_TYPES
from edgekv.budget.outcomes import trusted

UBATCHES = (512, 256, 128, 64)
PLAIN_UBATCHES = (128, 64)
"""Without flash attention more tokens at once are hardly faster, and each costs a row of scores for
every head: `bench/LOG.md`.
"""
PRECISE = "f16"
"""What keys and values have unless a smaller type was tested on the model, or asked for."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a context is opened, apart from its size."""

    swa_full: bool
    kv_type_k: str
    kv_type_v: str
    most_context: int
    """Tokens a conversation may hold with these types, as far as they were tested."""
    flash_attention: bool
    ubatch: int
    embeds: bool


def styles(case: Case) -> Iterator[Style]:
    """Best first."""
    wish, facts = case.wish, case.facts
    windows = (True, False) if facts.window else (True,)
    embeds = (True, False) if wish.embeddings is None else (wish.embeddings,)
    if not case.can_embed:
        embeds = (False,)
    pairs = _kv_types(case).items()
    for swa_full, (pair, most) in product(windows, pairs):
        for (flash_attention, ubatch), embed in product(_computing(case), embeds):
            yield Style(swa_full, *pair, most, flash_attention, ubatch, embed)


def _computing(case: Case) -> Iterator[tuple[bool, int]]:
    """With flash attention or without, and the tokens at once.

    Only flash attention passes over the cells of other conversations at no cost, so a plan takes
    it. `docs/memory.md` says where it is slower.
    """
    if case.wish.flash_attention is False:
        yield from ((False, ubatch) for ubatch in PLAIN_UBATCHES)
    else:
        yield from ((True, ubatch) for ubatch in UBATCHES)


def _kv_types(case: Case) -> dict[tuple[str, str], int]:
    """The pairs of types to choose from, best first, with the context that each may have."""
    wish, geometry, longest = case.wish, case.geometry, case.longest_context
    pairs = {(wish.kv_type_k or PRECISE, wish.kv_type_v or PRECISE): LONGEST_CONTEXT}
    for test in trusted(case.tested):
        kept = all(
            wished in (None, chosen)
            for wished, chosen in zip((wish.kv_type_k, wish.kv_type_v), test.types, strict=True)
        )
        fits = geometry is None or all(fits_widths(geometry, name) for name in test.types)
        fits &= wish.flash_attention is not False or not KV_TYPES[test.types[1]].is_quantised
        most = LONGEST_CONTEXT if test.most_context is None else test.most_context
        if kept and fits and most >= (wish.context_length or min(longest, ENOUGH_CONTEXT)):
            pairs.setdefault(test.types, most)
    return pairs
