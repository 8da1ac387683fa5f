"""Wishes that cannot be kept, each answered with one sentence that names what can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from edgekv.budget.case import Case, with_wish
from edgekv.budget.devices import Budget
from edgekv.budget.dry_run import DryRun
from edgekv.budget.formulas import fits_widths
from edgekv.budget.judge import Judge, sum_bytes
from edgekv.budget.kv_types import KV_TYPES
from edgekv.budget.machine import MIB
from edgekv.budget.search import (
    MOST_SEQS,
    best_choice,
    largest_choice,
    most_frugal_choice,
)
from edgekv.budget.sizes import format_size
from edgekv.budget.smaller_files import smaller_file
from edgekv.core.plan import Choice
from edgekv.errors import DoesNotFit, InvalidValue

MOST_ROUNDS = 4


def check_wish(case: Case, budget: Budget) -> None:
    """Raise `InvalidValue` for a wish that no amount of memory can keep."""
    for sentence in _impossible(case, budget):
        raise InvalidValue(sentence.split()[0], sentence)


async def refusal(case: Case, judge: Judge, run: DryRun) -> DoesNotFit:
    """Why nothing fits, and the smallest change that helps.

    `run` is the dry run of the most frugal choice.
    """
    needed = judge.needed_bytes(run)
    return _does_not_fit(case, judge, needed, await _remedy(case, judge, run))


def known_refusal(case: Case, judge: Judge) -> DoesNotFit:
    """The refusal where weights and recurrent state alone are too much, so that no dry run was
    made.
    """
    needed = judge.known_bytes(most_frugal_choice(case))
    return _does_not_fit(case, judge, needed, next(_known_remedies(case, judge, needed)))


def _does_not_fit(case: Case, judge: Judge, needed: int, remedy: str) -> DoesNotFit:
    available = judge.budget.total_bytes
    sentence = (
        f"{_wished(case)} needs {format_size(needed)} "
        f"and {format_size(available)} may be used; {remedy}."
    )
    return DoesNotFit(sentence, needed, available)


def _impossible(case: Case, budget: Budget) -> Iterator[str]:
    """One sentence for each such wish, beginning with its option."""
    wish, trained = case.wish, case.longest_context
    context, cells = wish.context_length, wish.cells
    if context is not None and context > trained:
        yield (
            f"--ctx {context} is more than the {trained} tokens that this model can follow; "
            f"take --ctx {trained} or less."
        )
    if context is not None and cells is not None and context > cells:
        yield (
            f"--ctx {context} is more than the pool of --cells {cells} holds; "
            f"take --ctx {cells} or less, or more cells."
        )
    if wish.slots is not None and wish.slots > MOST_SEQS:
        yield (
            f"--slots {wish.slots} is more than llama.cpp can tell apart; "
            f"take --slots {MOST_SEQS} or less."
        )
    if wish.embeddings and not case.can_embed:
        yield "--embeddings asks for vectors and this model ranks texts; load another one."
    yield from _impossible_types(case)
    yield from _impossible_layers(case, budget)


def _impossible_types(case: Case) -> Iterator[str]:
    for kv_type in (case.wish.kv_type_k, case.wish.kv_type_v):
        if kv_type and case.geometry is not None and not fits_widths(case.geometry, kv_type):
            yield (
                f"--kv-type {kv_type} packs elements in blocks that this model's layers do not "
                "fill; take --kv-type f16."
            )

    value_type = case.wish.kv_type_v
    if case.wish.flash_attention is False and value_type and KV_TYPES[value_type].is_quantised:
        yield (
            f"--flash-attention off cannot read {value_type} values; take --flash-attention on, or "
            f"--kv-type {case.wish.kv_type_k or 'auto'}/f16."
        )


def _impossible_layers(case: Case, budget: Budget) -> Iterator[str]:
    wished, all_layers = case.wish.gpu_layers or 0, case.all_layers
    if wished > 0 and not budget.has_gpu and not budget.lent:
        yield (
            f"--gpu-layers {wished} asks for a graphics device and none can be used here; "
            "leave it out, or install llama-cpp-python built for yours."
        )
    elif wished > all_layers:
        yield (
            f"--gpu-layers {wished} is more than this model has; "
            f"take --gpu-layers {all_layers} or less."
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


async def _remedy(case: Case, judge: Judge, run: DryRun) -> str:
    """The smallest change that helps; if there is none, what might."""
    for field, words in _LARGEST.items():
        if getattr(case.wish, field) is not None:
            largest = await _largest(case, judge, run, field)
            if largest is not None:
                return f"{words} {getattr(largest, field)}"
    if case.wish.gpu_layers and (layers := await _most_layers(case, judge)) is not None:
        return f"the most that fit are --gpu-layers {layers}"
    return next(_other_remedies(case, judge, run))


def _other_remedies(case: Case, judge: Judge, run: DryRun) -> Iterator[str]:
    wish, needed = case.wish, judge.needed_bytes(run)
    free_types = with_wish(case, kv_type_k=None, kv_type_v=None)
    if free_types != case and (best := best_choice(free_types, judge.spare_by_estimate(run))):
        yield f"--kv-type {best.kv_type_k} fits"
    if wish.memory_bytes is not None and needed <= judge.budget.host.free_bytes:
        yield f"give it --memory {-(-needed // MIB)}MiB"
    if wish.embeddings:
        yield "leave out --embeddings"
    if wish.host_cache_bytes:
        yield "take a smaller --host-cache"
    weights = sum_bytes(line for line in judge.lines(run) if line.label == "weights")
    yield from _less_model(case, judge, needed, weights)


def _known_remedies(case: Case, judge: Judge, needed: int) -> Iterator[str]:
    """`needed` is not all, for only a dry run would tell the rest."""
    for slots in range(most_frugal_choice(case).slots - 1, 0, -1):
        if judge.may_run(most_frugal_choice(with_wish(case, slots=slots))):
            yield f"take --slots {slots} or less"
    if case.wish.memory_bytes is not None and needed <= judge.budget.host.free_bytes:
        yield "give it more --memory"
    yield from _less_model(case, judge, needed, case.facts.weight_bytes)


def _less_model(case: Case, judge: Judge, needed: int, weight_bytes: int) -> Iterator[str]:
    room = judge.budget.total_bytes - (needed - weight_bytes)
    if (smaller := smaller_file(case.facts, weight_bytes, room)) is not None:
        yield f"close other programs, or take this model in {smaller}"
    if judge.budget.lent:
        yield "lend more on a worker, or name another: layers move whole"
    yield "close other programs or take a smaller model"


_LARGEST = {
    "context_length": "the largest that fits is --ctx",
    "slots": "the most that fit are --slots",
    "cells": "the most that fit are --cells",
}


async def _most_layers(case: Case, judge: Judge) -> int | None:
    """The most GPU layers, fewer than were asked for, that fit in the most frugal choice."""
    if case.worker_layers:
        return None
    fitting, low, high = None, -1, case.wish.gpu_layers or 0
    while high - low > 1:
        middle = (low + high) // 2
        run = await judge.run(most_frugal_choice(replace(case, gpu_layers=middle)))
        if judge.spare_bytes(run) >= 0:
            fitting = low = middle
        else:
            high = middle
    return fitting


async def _largest(case: Case, judge: Judge, run: DryRun, field: str) -> Choice | None:
    """The choice with the largest `field` that really fits, the other wishes kept."""
    fitting = None
    for _ in range(MOST_ROUNDS):
        choice = largest_choice(case, field, judge.spare_by_estimate(run))
        if choice is None or choice == run.choice:
            break
        run = await judge.run(choice)
        fitting = choice if judge.spare_bytes(run) >= 0 else fitting
    return fitting
