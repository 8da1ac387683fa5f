"""Which choice serves people best in the memory there is. Pure: it only estimates.

Wishes are kept. What is left open is decided in this order: every conversation gets the
context people need; then as many slots as the machine can serve; then prefixes can be
shared; then keys and values stay precise; then prompts are computed in large steps. What
memory is left after that makes conversations longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

from edgekv.budget.formulas import fits_widths, padded
from edgekv.budget.geometry import Geometry
from edgekv.budget.metadata import ModelKeys
from edgekv.budget.outcomes import Outcome, trusted
from edgekv.budget.wish import Wish
from edgekv.core.plan import CELL_PADDING, Choice, ModelFacts

ENOUGH_CONTEXT = 8192
"""Tokens of a conversation that people can work with."""
LEAST_CONTEXT = 512
"""Below this a slot is not worth opening."""
LEAST_CELLS_PER_SLOT = 2048
"""With fewer, slots that share a pool mostly wait for each other."""
LONGEST_CONTEXT = 2**20
"""What a plan takes by itself, whatever a file claims to be trained on."""
EMBEDDED_TOKENS = 2048
"""The longest text to embed: a long passage, while whole documents are embedded in parts."""
MAX_KEPT = 4
MOST_SEQS = 255
"""llama.cpp tells 256 ids apart, and one is for moving cells to and from the store."""

RANKING = 4
"""LLAMA_POOLING_TYPE_RANK."""

UBATCHES = (512, 256, 128, 64)
PRECISE = "f16"
"""What keys and values have unless a smaller type was tested on the model, or asked for."""

Spare: TypeAlias = Callable[[Choice], int]
"""Bytes that a choice leaves of the scarcest memory; it fits if they are not negative."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is being planned: a model, the user's wishes and what the machine is good for."""

    facts: ModelFacts
    geometry: Geometry | None
    wish: Wish
    most_slots: int
    threads: int
    gpu_layers: int
    tested: tuple[Outcome, ...] = ()
    """Outcomes of the gate on this model."""
    host_experts: int = 0
    """Layers whose experts stay on the host."""

    @property
    def longest_context(self) -> int:
        return min(self.facts.context_train or ENOUGH_CONTEXT, LONGEST_CONTEXT)

    @property
    def least_context(self) -> int:
        """The context below which no plan is made by itself."""
        return min(self.longest_context, LEAST_CONTEXT)

    @property
    def all_layers(self) -> int:
        """GPU layers that leave none to the CPU: llama.cpp counts the output as one."""
        return self.facts.num_layers + 1

    @property
    def can_embed(self) -> bool:
        """Whether the model gives vectors; one that ranks texts gives a number."""
        keys = ModelKeys(self.facts.metadata)
        return keys.number("pooling_type") != RANKING

    @property
    def enough_context(self) -> int:
        """The context to reach for every slot before anything else."""
        return self.wish.context_length or min(self.longest_context, ENOUGH_CONTEXT)


@dataclass(frozen=True, slots=True)
class _Style:
    """How a context is opened, apart from its size."""

    swa_full: bool
    kv_type_k: str
    kv_type_v: str
    most_context: int
    """Tokens a conversation may hold with these types, as far as they were tested."""
    ubatch: int
    embeds: bool


def best_choice(case: Case, spare: Spare) -> Choice | None:
    """The best choice that fits, or None if no choice that keeps the wishes does."""
    best: Choice | None = None
    for style in _styles(case):
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
    return _choice(case, next(_styles(case)), slots, padded(cells))


def most_frugal_choice(case: Case) -> Choice:
    """The least that still keeps the wishes."""
    *_, style = _styles(case)
    slots = case.wish.slots or 1
    least = case.wish.context_length or case.least_context
    return _choice(case, style, slots, padded(case.wish.cells or least))


def largest_choice(case: Case, field: str, spare: Spare) -> Choice | None:
    """The choice with the largest `field` (context_length, slots or cells) that fits.

    Everything else is as frugal as the other wishes allow.
    """
    open_case = with_wish(case, **{field: None})
    *_, style = _styles(open_case)
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


def _styles(case: Case) -> Iterator[_Style]:
    """Best first."""
    wish, facts = case.wish, case.facts
    windows = (True, False) if facts.window else (True,)
    embeds = (True, False) if wish.embeddings is None else (wish.embeddings,)
    if not case.can_embed:
        embeds = (False,)
    pairs = _kv_types(case).items()
    for swa_full, (pair, most), ubatch, embed in product(windows, pairs, UBATCHES, embeds):
        yield _Style(swa_full, *pair, most, ubatch, embed)


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
        most = LONGEST_CONTEXT if test.most_context is None else test.most_context
        if kept and fits and most >= (wish.context_length or min(longest, ENOUGH_CONTEXT)):
            pairs.setdefault(test.types, most)
    return pairs


def _most_slots(case: Case) -> int:
    return case.wish.slots or case.most_slots


def _slot_counts(case: Case) -> Iterator[int]:
    least = case.wish.slots or 1
    yield from range(_most_slots(case), least - 1, -1)


def _largest(case: Case, style: _Style, slots: int, spare: Spare) -> Choice | None:
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


def _choice(case: Case, style: _Style, slots: int, cells: int) -> Choice:
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
        batch=style.ubatch,
        ubatch=style.ubatch,
        swa_full=style.swa_full,
        flash_attention=True,
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


def with_wish(case: Case, **changes: int | str | None) -> Case:
    """The same case with other wishes."""
    return replace(case, wish=replace(case.wish, **changes))  # type: ignore[arg-type]
