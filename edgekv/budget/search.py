"""Which choice serves people best in the memory there is. Pure: it only estimates.

Wishes are kept. What is left open is decided in this order: every conversation gets the
context people need; then as many slots as the machine can serve; then prefixes can be
shared; then keys and values stay precise; then prompts are computed in large steps. What
memory is left after that makes conversations longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from edgekv.budget.case import Case, with_wish
from edgekv.budget.formulas import padded
from edgekv.budget.styles import Style, styles
from edgekv.core.plan import CELL_PADDING, Choice

LEAST_CELLS_PER_SLOT = 2048
"""With fewer, slots that share a pool mostly wait for each other."""
EMBEDDED_TOKENS = 2048
"""The longest text to embed: a long passage, while whole documents are embedded in parts."""
MAX_KEPT = 4
MOST_SEQS = 255
"""llama.cpp tells 256 ids apart, and one is for moving cells to and from the store."""

Spare: TypeAlias = Callable[[Choice], int]
"""Bytes that a choice leaves of the scarcest memory; it fits if they are not negative."""


def best_choice(case: Case, spare: Spare) -> Choice | None:
    """The best choice that fits, or None if no choice that keeps the wishes does."""
    best: Choice | None = None
    for style in styles(case):
        for slots in _slot_counts(case):
            choice = _largest(case, style, slots, spare)
            if choice is not None and (best is None or _rank(case, choice) > _rank(case, best)):
                best = choice
        # Styles come best first, so a later one can only win by reaching more.
        if best is not None and _rank(case, best) == _best_rank(case):
            break
    return best


def preferred_choice(case: Case) -> Choice:
    """What to try first: everything people need, opened in the best style."""
    slots = _most_slots(case)
    cells = case.wish.cells or case.enough_context * slots
    return _choice(case, next(styles(case)), slots, padded(cells))


def most_frugal_choice(case: Case) -> Choice:
    """The least that still keeps the wishes."""
    *_, style = styles(case)
    slots = case.wish.slots or 1
    least = case.wish.context_length or case.least_context
    return _choice(case, style, slots, padded(case.wish.cells or least))


def largest_choice(case: Case, field: str, spare: Spare) -> Choice | None:
    """The choice with the largest `field` (context_length, slots or cells) that fits.

    Everything else is as frugal as the other wishes allow.
    """
    open_case = with_wish(case, **{field: None})
    *_, style = styles(open_case)
    if field == "slots":
        least = padded(most_frugal_choice(open_case).cells)
        choices = (_choice(open_case, style, n, least) for n in range(_most_slots(case), 0, -1))
        return next((choice for choice in choices if spare(choice) >= 0), None)
    choice = _largest(open_case, style, case.wish.slots or 1, spare)
    if choice is None or field == "cells":
        return choice
    longest = min(choice.cells, case.longest_context)
    return _choice(with_wish(case, context_length=longest), style, choice.slots, choice.cells)


def _rank(case: Case, choice: Choice) -> tuple[int, int, bool, bool]:
    """What people need first: context, slots, prefixes that are shared, and room for all at
    once if both context and slots were asked for.

    A context short of enough counts by powers of two, so that no slot is given up for a few
    tokens more.
    """
    wish, enough, context = case.wish, case.enough_context, choice.context_length
    rounded = enough if context >= enough else 1 << context.bit_length() >> 1
    shares = case.facts.can_share_prefixes(choice.swa_full)
    may_share_pool = wish.context_length is None or wish.slots is None
    has_room = may_share_pool or choice.cells >= context * choice.slots
    return rounded, choice.slots, shares, has_room


def _best_rank(case: Case) -> tuple[int, int, bool, bool]:
    return case.enough_context, _most_slots(case), case.facts.can_share_prefixes(True), True


def _most_slots(case: Case) -> int:
    return case.wish.slots or case.most_slots


def _slot_counts(case: Case) -> Iterator[int]:
    least = case.wish.slots or 1
    yield from range(_most_slots(case), least - 1, -1)


def _largest(case: Case, style: Style, slots: int, spare: Spare) -> Choice | None:
    """The choice with the largest pool that fits, up to one whole context for each slot."""
    wish = case.wish
    context = wish.context_length or min(case.longest_context, style.most_context)
    least = wish.cells or wish.context_length or case.least_context
    most = wish.cells or max(least, context * slots)
    if wish.slots is None and slots > 1:
        least = max(least, slots * min(LEAST_CELLS_PER_SLOT, context))
    steps = range(padded(least), padded(most) + 1, CELL_PADDING)
    cells = _last(steps, lambda cells: spare(_choice(case, style, slots, cells)))
    return None if cells is None else _choice(case, style, slots, cells)


def _last(steps: range, spare: Callable[[int], int]) -> int | None:
    """The last of `steps` that leaves something to spare, of which ever later ones leave less.

    None if there is no such step.
    """
    if not steps or (spare_low := spare(steps[0])) < 0:
        return None
    if (spare_high := spare(steps[-1])) >= 0:
        return steps[-1]
    low, high = 0, len(steps) - 1
    while high - low > 1:
        # Memory is nearly a straight line in the cells, so a few guesses along it are enough.
        guess = low + (high - low) * spare_low // (spare_low - spare_high)
        middle = min(max(guess, low + 1), high - 1)
        if (left := spare(steps[middle])) >= 0:
            low, spare_low = middle, left
        else:
            high, spare_high = middle, left
    return steps[low]


def _choice(case: Case, style: Style, slots: int, cells: int) -> Choice:
    shares = case.facts.can_share_prefixes(style.swa_full)
    kept = min(slots, MAX_KEPT, MOST_SEQS - slots) if shares else 0
    return Choice(
        context_length=min(style.most_context, _context_length(case, slots, cells)),
        slots=slots,
        cells=cells,
        kv_type_k=style.kv_type_k,
        kv_type_v=style.kv_type_v,
        gpu_layers=case.gpu_layers,
        host_experts=case.host_experts,
        worker_layers=case.worker_layers,
        batch=style.ubatch,
        ubatch=style.ubatch,
        swa_full=style.swa_full,
        flash_attention=style.flash_attention,
        kept=kept,
        threads=case.threads,
        host_cache_bytes=case.wish.host_cache_bytes or 0,
        embedding_cells=min(EMBEDDED_TOKENS, case.longest_context) if style.embeds else 0,
    )


def _context_length(case: Case, slots: int, cells: int) -> int:
    """Tokens one conversation may hold in a pool of `cells`.

    Each slot has its own share of the pool, unless that would be less than enough: then
    conversations may grow to what is enough and the slots share the pool.
    """
    if case.wish.context_length is not None:
        return case.wish.context_length
    share = cells // slots // CELL_PADDING * CELL_PADDING
    return min(case.longest_context, max(share, min(case.enough_context, cells)))
