"""Wishes that cannot be kept, each answered with one sentence that names what can."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from edgekv.budget.devices import Budget
from edgekv.budget.formulas import fits_widths
from edgekv.budget.machine import MIB
from edgekv.budget.search import (
    LLAMA_MAX_SEQ,
    Case,
    Fits,
    best_choice,
    largest_context,
    most_frugal_choice,
    with_wish,
)
from edgekv.budget.sizes import format_size
from edgekv.core.plan import Choice
from edgekv.errors import DoesNotFit, InvalidValue


def check_wish(case: Case, budget: Budget) -> None:
    """Raise `InvalidValue` for a wish that no amount of memory can keep."""
    for param, sentence in _impossible(case, budget):
        raise InvalidValue(param, sentence)


def refusal(
    case: Case, budget: Budget, fits: Fits, needed_bytes: Callable[[Choice], int]
) -> DoesNotFit:
    """Why nothing fits, and the smallest change that helps."""
    needed = needed_bytes(most_frugal_choice(case))
    available = budget.total_bytes
    sentence = (
        f"{_wished(case)} needs {format_size(needed)} and {format_size(available)} may be used; "
        f"{next(_remedies(case, budget, fits, needed))}."
    )
    return DoesNotFit(sentence, needed, available)


def _impossible(case: Case, budget: Budget) -> Iterator[tuple[str, str]]:
    wish, trained = case.wish, case.longest_context
    context, cells = wish.context_length, wish.cells
    if context is not None and context > trained:
        yield (
            "--ctx",
            (
                f"--ctx {context} is more than the {trained} tokens that this model can follow; "
                f"take --ctx {trained} or less."
            ),
        )
    if context is not None and cells is not None and context > cells:
        yield (
            "--ctx",
            (
                f"--ctx {context} is more than the pool of --cells {cells} holds; "
                f"take --ctx {cells} or less, or more cells."
            ),
        )
    if wish.slots is not None and wish.slots > LLAMA_MAX_SEQ:
        yield (
            "--slots",
            (
                f"--slots {wish.slots} is more than llama.cpp can tell apart; "
                f"take --slots {LLAMA_MAX_SEQ} or less."
            ),
        )
    yield from _impossible_types(case)
    yield from _impossible_layers(case, budget)


def _impossible_types(case: Case) -> Iterator[tuple[str, str]]:
    for kv_type in (case.wish.kv_type_k, case.wish.kv_type_v):
        if kv_type and case.geometry is not None and not fits_widths(case.geometry, kv_type):
            yield (
                "--kv-type",
                (
                    f"--kv-type {kv_type} packs elements in blocks that this model's layers do not "
                    "fill; take --kv-type f16."
                ),
            )


def _impossible_layers(case: Case, budget: Budget) -> Iterator[tuple[str, str]]:
    wished, all_layers = case.wish.gpu_layers or 0, case.all_layers
    if wished > 0 and not budget.has_gpu:
        yield (
            "--gpu-layers",
            (
                f"--gpu-layers {wished} asks for a graphics device and none can be used here; "
                "leave it out, or install llama-cpp-python built for yours."
            ),
        )
    elif wished > all_layers:
        yield (
            "--gpu-layers",
            (
                f"--gpu-layers {wished} is more than this model has; "
                f"take --gpu-layers {all_layers} or less."
            ),
        )


def _wished(case: Case) -> str:
    """What the user fixed, or what a plan needs at the least."""
    wish = case.wish
    given = (("--ctx", wish.context_length), ("--slots", wish.slots), ("--cells", wish.cells))
    words = [f"{name} {value}" for name, value in given if value is not None]
    if wish.kv_type_k or wish.kv_type_v:
        words.append(f"--kv-type {wish.kv_type_k or 'auto'}/{wish.kv_type_v or 'auto'}")
    if words:
        return " ".join(words)
    return f"{case.facts.name} with one conversation of {case.least_context} tokens"


def _remedies(case: Case, budget: Budget, fits: Fits, needed: int) -> Iterator[str]:
    """Smallest change first; there is always one."""
    wish = case.wish
    yield from _smaller_wishes(case, fits)
    if wish.gpu_layers:
        yield "take fewer --gpu-layers"
    if wish.memory_bytes is not None and wish.memory_bytes < needed <= budget.host.free_bytes:
        yield f"give it --memory {-(-needed // MIB)}MiB"
    if wish.host_cache_bytes:
        yield "take a smaller --host-cache"
    yield "close other programs or take a smaller model"


def _smaller_wishes(case: Case, fits: Fits) -> Iterator[str]:
    wish = case.wish
    if wish.context_length is not None and (context := largest_context(case, fits)):
        yield f"the largest that fits is --ctx {context}"
    if wish.slots is not None and (best := best_choice(with_wish(case, slots=None), fits)):
        yield f"the most that fit are --slots {best.slots}"
    if wish.cells is not None and (best := best_choice(with_wish(case, cells=None), fits)):
        yield f"the most that fit are --cells {best.cells}"
    if wish.kv_type_k or wish.kv_type_v:
        free_types = with_wish(case, kv_type_k=None, kv_type_v=None)
        if best := best_choice(free_types, fits):
            yield f"--kv-type {best.kv_type_k} fits"
